import java.io.FileReader;
import java.io.Reader;
import java.util.Properties;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * Statements of Flink SQL, the last of which is an INSERT that runs until the process ends. Its argument is a file of properties:
 * "statement.0", "statement.1" and so on, and Flink's own.
 */
public final class FlinkStatements {
  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    try (Reader file = new FileReader(arguments[0])) {
      properties.load(file);
    }
    Configuration configuration = new Configuration();
    properties.forEach(
        (name, value) -> {
          if (!name.toString().startsWith("statement.")) {
            configuration.setString(name.toString(), value.toString());
          }
        });
    int parallelism = Integer.parseInt(properties.getProperty("parallelism.default"));
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration);
    StreamTableEnvironment tables =
        StreamTableEnvironment.create(
            environment, EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build());
    TableResult job = null;
    for (int number = 0; properties.containsKey("statement." + number); number++) {
      job = tables.executeSql(properties.getProperty("statement." + number));
    }
    while (job.getJobClient().orElseThrow().getJobStatus().get() != JobStatus.RUNNING) {
      Thread.sleep(10);
    }
    System.out.println("READY " + System.currentTimeMillis());
    job.await();
  }
}
