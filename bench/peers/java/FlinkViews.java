import java.io.FileReader;
import java.io.Reader;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * The view in Flink SQL: events of equal id counted once, by page and minute. Its argument is a file of properties: those that begin
 * with "program." are this program's, with "kafka." the Kafka clients', with "sink." the producer's, the others are Flink's own.
 *
 * Duplicates are dropped as Flink's documentation on deduplication has it: ROW_NUMBER over the id in order of processing time, with
 * a state TTL. Windows are a column, not a window function, because that would drop late events.
 */
public final class FlinkViews {
  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    try (Reader file = new FileReader(arguments[0])) {
      properties.load(file);
    }
    String kafka = options(properties, "kafka.", "properties.");
    String producer = options(properties, "sink.", "properties.");
    String topic = properties.getProperty("program.topic");
    String output = properties.getProperty("program.output");
    Configuration configuration = new Configuration();
    properties.forEach(
        (name, value) -> {
          if (!name.toString().matches("(program|kafka|sink)\\..*")) {
            configuration.setString(name.toString(), value.toString());
          }
        });
    int parallelism = Integer.parseInt(properties.getProperty("parallelism.default"));
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration);
    StreamTableEnvironment tables =
        StreamTableEnvironment.create(
            environment, EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build());
    tables.executeSql(
        "CREATE TABLE requests (id STRING, `at` TIMESTAMP_LTZ(3), `path` STRING, `bytes` BIGINT, ms DOUBLE, seen AS PROCTIME()) WITH ("
            + "'connector' = 'kafka', 'topic' = '" + topic + "', 'properties.group.id' = '" + output + "', " + kafka
            + ", 'scan.startup.mode' = 'earliest-offset', 'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601')");
    tables.executeSql(
        "CREATE TABLE pages (`path` STRING, w BIGINT, n BIGINT, b BIGINT, m DOUBLE, PRIMARY KEY (`path`, w) NOT ENFORCED) WITH ("
            + "'connector' = 'upsert-kafka', 'topic' = '" + output + "', " + kafka + ", " + producer
            + ", 'key.format' = 'json', 'value.format' = 'json')");
    TableResult job =
        tables.executeSql(
            "INSERT INTO pages SELECT `path`, w, COUNT(*), SUM(`bytes`), MAX(ms) FROM ("
                + "SELECT `path`, `bytes`, ms, UNIX_TIMESTAMP(CAST(FLOOR(`at` TO MINUTE) AS STRING)) * 1000 AS w, "
                + "ROW_NUMBER() OVER (PARTITION BY id ORDER BY seen ASC) AS nth FROM requests) "
                + "WHERE nth = 1 GROUP BY `path`, w");
    while (job.getJobClient().orElseThrow().getJobStatus().get() != JobStatus.RUNNING) {
      Thread.sleep(10);
    }
    System.out.println("READY " + System.currentTimeMillis());
    job.await();
  }

  private static String options(Properties properties, String from, String to) {
    return properties.stringPropertyNames().stream()
        .filter(name -> name.startsWith(from))
        .map(name -> "'" + to + name.substring(from.length()) + "' = '" + properties.getProperty(name).replace("'", "''") + "'")
        .collect(Collectors.joining(", "));
  }
}
