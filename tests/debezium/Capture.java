import io.apicurio.registry.utils.converter.avro.AvroData;
import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.ByteArrayOutputStream;
import java.io.FileReader;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.Function;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Sends the changes that Debezium's embedded engine captures to a topic: Capture.java ENGINE.properties KAFKA.properties TOPIC [SCHEMAS].
 *
 * In JSON; with a file for schemas in Avro, as Apicurio's converter makes it. The schema in line n of the file has the id n.
 */
public class Capture {
    private static final List<String> SCHEMAS = new ArrayList<>();

    public static void main(String[] words) throws Exception {
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(read(words[1]), new ByteArraySerializer(), new ByteArraySerializer());
        if (words.length == 3) {
            run(DebeziumEngine.create(Json.class), words, producer, change ->
                new ProducerRecord<>(words[2], bytes(change.key()), bytes(change.value())));
            return;
        }
        AvroData data = new AvroData(100);
        Path schemas = Path.of(words[3]);
        run(DebeziumEngine.create(Connect.class), words, producer, change -> {
            SourceRecord row = change.value();
            byte[] key = framed(data, schemas, row.keySchema(), row.key());
            return new ProducerRecord<>(words[2], key, framed(data, schemas, row.valueSchema(), row.value()));
        });
    }

    private static <T> void run(
        DebeziumEngine.Builder<ChangeEvent<T, T>> builder,
        String[] words,
        KafkaProducer<byte[], byte[]> producer,
        Function<ChangeEvent<T, T>, ProducerRecord<byte[], byte[]>> convert
    ) throws Exception {
        builder
            .using(read(words[0]))
            .using((success, message, error) -> {
                System.err.println("the engine ended: " + message);
                Runtime.getRuntime().halt(1);
            })
            .notifying((changes, committer) -> {
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (ChangeEvent<T, T> change : changes) {
                    sent.add(producer.send(convert.apply(change)));
                }
                for (Future<RecordMetadata> each : sent) {
                    try {
                        each.get();
                    } catch (ExecutionException error) {
                        throw new IllegalStateException(error);
                    }
                }
                for (ChangeEvent<T, T> change : changes) {
                    committer.markProcessed(change);
                }
                committer.markBatchFinished();
            })
            .build()
            .run();
    }

    private static byte[] framed(AvroData data, Path schemas, org.apache.kafka.connect.data.Schema schema, Object value) {
        if (value == null) {
            return null;
        }
        org.apache.avro.Schema avro = data.fromConnectSchema(schema);
        String text = avro.toString();
        if (!SCHEMAS.contains(text)) {
            SCHEMAS.add(text);
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try {
            Files.write(schemas, SCHEMAS);
            out.write(0);
            out.write(ByteBuffer.allocate(4).putInt(SCHEMAS.indexOf(text) + 1).array());
            BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
            new GenericDatumWriter<Object>(avro).write(data.fromConnectData(schema, value), encoder);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        return out.toByteArray();
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
