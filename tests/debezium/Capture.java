import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends the changes that Debezium's embedded engine captures to a topic: Capture.java ENGINE.properties KAFKA.properties TOPIC. */
public class Capture {
    public static void main(String[] words) throws Exception {
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(read(words[1]), new ByteArraySerializer(), new ByteArraySerializer());
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
            .using(read(words[0]))
            .using((success, message, error) -> {
                System.err.println("the engine ended: " + message);
                Runtime.getRuntime().halt(1);
            })
            .notifying((changes, committer) -> {
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (ChangeEvent<String, String> change : changes) {
                    sent.add(producer.send(new ProducerRecord<>(words[2], bytes(change.key()), bytes(change.value()))));
                }
                for (Future<RecordMetadata> each : sent) {
                    try {
                        each.get();
                    } catch (ExecutionException error) {
                        throw new IllegalStateException(error);
                    }
                }
                for (ChangeEvent<String, String> change : changes) {
                    committer.markProcessed(change);
                }
                committer.markBatchFinished();
            })
            .build();
        engine.run();
    }

    private static Properties read(String path) throws Exception {
        Properties properties = new Properties();
        try (FileReader file = new FileReader(path)) {
            properties.load(file);
        }
        return properties;
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }
}
