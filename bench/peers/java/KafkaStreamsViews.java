import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.FileReader;
import java.io.IOException;
import java.io.Reader;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/**
 * The view in Kafka Streams: events of equal id counted once, by page and minute. Its argument is a file of properties: those that
 * begin with "program." are this program's, the others are Kafka Streams' own.
 *
 * The topic's key is the page, and duplicates have their event's key, so neither step moves events between partitions.
 */
public final class KafkaStreamsViews {
  private static final JsonFactory JSON = new JsonFactory();
  private static final Duration DAY = Duration.ofHours(24);
  private static final byte[] SEEN = {1};

  record Event(String id, long at, String path, long bytes, double ms) {}

  record Measures(long n, long b, double m) {
    Measures plus(Event event) {
      return new Measures(n + 1, b + event.bytes(), Math.max(m, event.ms()));
    }
  }

  /** Reads the fields that the view needs; a value that is not such an event ends the program. */
  static Event parse(byte[] value) {
    try (JsonParser parser = JSON.createParser(value)) {
      String id = null;
      String path = null;
      long at = 0;
      long bytes = 0;
      double ms = 0;
      parser.nextToken();
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String field = parser.currentName();
        parser.nextToken();
        switch (field) {
          case "id" -> id = parser.getText();
          case "at" -> at = Instant.parse(parser.getText()).toEpochMilli();
          case "path" -> path = parser.getText();
          case "bytes" -> bytes = parser.getLongValue();
          case "ms" -> ms = parser.getDoubleValue();
          default -> parser.skipChildren();
        }
      }
      return new Event(id, at, path, bytes, ms);
    } catch (IOException error) {
      throw new IllegalArgumentException("not an event", error);
    }
  }

  /** Passes the first event of each id: what Confluent's tutorial on duplicates does, with a windowed store of ids. */
  static final class FirstOfId implements FixedKeyProcessor<String, Event, Event> {
    private final long window;
    private FixedKeyProcessorContext<String, Event> context;
    private WindowStore<String, byte[]> seen;

    FirstOfId(long window) {
      this.window = window;
    }

    @Override
    public void init(FixedKeyProcessorContext<String, Event> context) {
      this.context = context;
      this.seen = context.getStateStore("seen");
    }

    @Override
    public void process(FixedKeyRecord<String, Event> record) {
      long now = context.currentSystemTimeMs();
      String id = record.value().id();
      try (WindowStoreIterator<byte[]> earlier = seen.fetch(id, now - window, now)) {
        if (earlier.hasNext()) {
          return;
        }
      }
      seen.put(id, SEEN, now);
      context.forward(record);
    }
  }

  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    try (Reader file = new FileReader(arguments[0])) {
      properties.load(file);
    }
    String topic = properties.getProperty("program.topic");
    String output = properties.getProperty("program.output");
    Duration window = Duration.ofMinutes(Long.parseLong(properties.getProperty("program.dedup_minutes")));
    properties.keySet().removeIf(name -> name.toString().startsWith("program."));

    StreamsBuilder builder = new StreamsBuilder();
    builder.addStateStore(
        Stores.windowStoreBuilder(
            Stores.persistentWindowStore("seen", window.multipliedBy(2), window, false), Serdes.String(), Serdes.ByteArray()));
    TimestampExtractor eventTime = (record, partitionTime) -> ((Event) record.value()).at();
    Serde<Event> events = Serdes.serdeFrom(unused(), (name, value) -> parse(value));
    Serde<Measures> measures = Serdes.serdeFrom(writer(), reader());
    builder
        .stream(topic, Consumed.with(Serdes.String(), events).withTimestampExtractor(eventTime))
        .processValues(() -> new FirstOfId(window.toMillis()), "seen")
        .groupByKey()
        .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), DAY))
        .aggregate(
            () -> new Measures(0, 0, Double.NEGATIVE_INFINITY),
            (path, event, before) -> before.plus(event),
            Materialized.<String, Measures>as(
                    Stores.persistentWindowStore("pages", DAY.plusHours(2), Duration.ofMinutes(1), false))
                .withKeySerde(Serdes.String())
                .withValueSerde(measures)
                .withCachingEnabled())
        .toStream()
        .map((page, found) -> KeyValue.pair(page.key() + "|" + page.window().start(), json(page.key(), page.window().start(), found)))
        .to(output, Produced.with(Serdes.String(), Serdes.String()));

    KafkaStreams streams = new KafkaStreams(builder.build(), properties);
    streams.setStateListener(
        (now, before) -> {
          if (now == KafkaStreams.State.RUNNING) {
            System.out.println("READY " + System.currentTimeMillis());
          }
        });
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
    streams.start();
    Thread.currentThread().join();
  }

  private static String json(String path, long minute, Measures found) {
    return "{\"path\":\"" + path + "\",\"w\":" + minute + ",\"n\":" + found.n() + ",\"b\":" + found.b() + ",\"m\":" + found.m() + "}";
  }

  private static Serializer<Event> unused() {
    return (name, event) -> {
      throw new UnsupportedOperationException("events are only read");
    };
  }

  private static Serializer<Measures> writer() {
    return (name, found) ->
        found == null ? null : ByteBuffer.allocate(24).putLong(found.n()).putLong(found.b()).putDouble(found.m()).array();
  }

  private static Deserializer<Measures> reader() {
    return (name, bytes) -> {
      if (bytes == null) {
        return null;
      }
      ByteBuffer buffer = ByteBuffer.wrap(bytes);
      return new Measures(buffer.getLong(), buffer.getLong(), buffer.getDouble());
    };
  }
}
