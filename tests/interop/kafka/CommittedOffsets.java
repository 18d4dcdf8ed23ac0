import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Prints, as JSON lines, the offsets that a broker says a group has committed, and the record of each partition that a
 * consumer of the group gets first.
 *
 * <pre>java CommittedOffsets.java ADDRESS GROUP</pre>
 */
public final class CommittedOffsets {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int PATIENCE = 100;

    private CommittedOffsets() {
    }

    public static void main(String[] args) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> committed = new HashMap<>();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            committed.putAll(admin.listConsumerGroupOffsets(args[1]).partitionsToOffsetAndMetadata().get());
        }
        committed.forEach((where, offset) -> print("committed", where, offset.offset()));
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", args[0]);
        config.put("group.id", args[1]);
        config.put("enable.auto.commit", false);
        config.put("auto.offset.reset", "none");
        config.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        config.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            consumer.assign(committed.keySet());
            Set<TopicPartition> waiting = new HashSet<>(committed.keySet());
            for (int i = 0; i < PATIENCE && !waiting.isEmpty(); i++) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    TopicPartition where = new TopicPartition(record.topic(), record.partition());
                    if (waiting.remove(where)) {
                        print("next", where, record.offset());
                    }
                }
            }
        }
    }

    private static void print(String kind, TopicPartition where, long offset) {
        ObjectNode line = JSON.createObjectNode();
        line.put("kind", kind).put("partition", where.toString()).put("offset", offset);
        System.out.println(line);
    }
}
