import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

/**
 * Reads all of some partitions with a real consumer, uncommitted and committed, and prints it as JSON lines.
 *
 * <pre>java ConsumeAll.java ADDRESS TOPIC PARTITION,PARTITION,... TIME,TIME,... OFFSET,OFFSET,...</pre>
 */
public final class ConsumeAll {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(200);
    private static final int PATIENCE = 50;
    private static PrintStream out;

    private ConsumeAll() {
    }

    public static void main(String[] args) {
        out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, StandardCharsets.UTF_8);
        for (String isolation : List.of("read_uncommitted", "read_committed")) {
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config(args[0], isolation))) {
                for (String partition : args[2].split(",")) {
                    TopicPartition where = new TopicPartition(args[1], Integer.parseInt(partition));
                    consumer.assign(List.of(where));
                    all(consumer, where, isolation);
                    if (isolation.equals("read_uncommitted")) {
                        times(consumer, where, args[3]);
                        seeks(consumer, where, args[4]);
                    }
                }
            }
        }
        out.flush();
    }

    private static Map<String, Object> config(String address, String isolation) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", address);
        config.put("isolation.level", isolation);
        config.put("enable.auto.commit", false);
        config.put("auto.offset.reset", "none");
        config.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        config.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        return config;
    }

    private static ObjectNode line(String kind, TopicPartition where) {
        return JSON.createObjectNode().put("kind", kind).put("partition", where.toString());
    }

    private static void all(KafkaConsumer<byte[], byte[]> consumer, TopicPartition where, String isolation) {
        long begin = consumer.beginningOffsets(List.of(where)).get(where);
        long end = consumer.endOffsets(List.of(where)).get(where);
        out.println(line("offsets", where).put("isolation", isolation).put("begin", begin).put("end", end));
        consumer.seek(where, begin);
        long count = 0;
        int idle = 0;
        while (consumer.position(where) < end && idle < PATIENCE) {
            ConsumerRecords<byte[], byte[]> polled = consumer.poll(POLL);
            idle = polled.isEmpty() ? idle + 1 : 0;
            for (ConsumerRecord<byte[], byte[]> record : polled) {
                count++;
                print(record, where, isolation);
            }
        }
        out.println(line("consumed", where).put("isolation", isolation).put("records", count)
            .put("position", consumer.position(where)));
    }

    private static void print(ConsumerRecord<byte[], byte[]> record, TopicPartition where, String isolation) {
        ObjectNode row = line("message", where).put("isolation", isolation).put("offset", record.offset())
            .put("timestamp", record.timestamp()).put("timestampType", record.timestampType().name);
        record.leaderEpoch().ifPresent(epoch -> row.put("leaderEpoch", epoch));
        row.put("key", text(record.key())).put("value", text(record.value()));
        ArrayNode headers = row.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        out.println(row);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    private static void times(KafkaConsumer<byte[], byte[]> consumer, TopicPartition where, String times) {
        for (String time : times.equals("-") ? new String[0] : times.split(",")) {
            ObjectNode row = line("offsetForTime", where).put("query", Long.parseLong(time));
            OffsetAndTimestamp at = consumer.offsetsForTimes(Map.of(where, Long.parseLong(time))).get(where);
            if (at != null) {
                row.put("offset", at.offset()).put("timestamp", at.timestamp());
            }
            out.println(row);
        }
    }

    /** The first record that comes after a seek. */
    private static void seeks(KafkaConsumer<byte[], byte[]> consumer, TopicPartition where, String offsets) {
        for (String offset : offsets.equals("-") ? new String[0] : offsets.split(",")) {
            consumer.seek(where, Long.parseLong(offset));
            ObjectNode row = line("seek", where).put("query", Long.parseLong(offset));
            for (int i = 0; i < PATIENCE; i++) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(POLL);
                if (!polled.isEmpty()) {
                    row.put("offset", polled.iterator().next().offset());
                    break;
                }
            }
            out.println(row);
        }
    }
}
