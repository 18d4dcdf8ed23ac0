import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Puts load on a running broker until it is ended or the broker is gone, and prints what the broker acknowledged.
 *
 * <pre>java SoakLoad.java ADDRESS SEED</pre>
 *
 * Topics: plain (all codecs, two partitions), kept (retention by size), compacted (hot keys and tombstones), money
 * (transactions, every third aborted), gone-N (created, written to and deleted again). Segments roll by time, because
 * the lowest segment.bytes differs between versions. The value of a record is
 * "TOPIC NUMBER " and a filler that the number decides. Lines on standard output, flushed:
 * {@code record TOPIC PARTITION OFFSET KEY NUMBER}: the broker acknowledged this record, without a number if it is a
 * tombstone; not said of transactions;
 * {@code acked TOPIC PARTITION OFFSET}: the broker acknowledged the record at that offset and all before it;
 * {@code committed TOPIC PARTITION OFFSET}: the same of a transaction whose markers are written;
 * {@code deleting TOPIC 0 0}: the topic will be deleted now. The next run creates one of the same name.
 */
public final class SoakLoad {
    private static final String[] CODECS = {"none", "lz4", "zstd", "gzip", "snappy"};
    private final String address;
    private final Random random;
    private long number;

    private SoakLoad(String address, long seed) {
        this.address = address;
        this.random = new Random(seed);
        this.number = seed * 1_000_000_000L;
    }

    public static void main(String[] args) throws Exception {
        new SoakLoad(args[0], Long.parseLong(args[1])).run();
    }

    private void run() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            create(admin, "plain", 2, Map.of("segment.ms", "4000"));
            create(admin, "kept", 1, Map.of("segment.ms", "1500", "retention.bytes", "200000",
                "file.delete.delay.ms", "500"));
            create(admin, "compacted", 1, Map.of("segment.ms", "1000", "cleanup.policy", "compact",
                "min.cleanable.dirty.ratio", "0.01", "delete.retention.ms", "2000", "file.delete.delay.ms", "500"));
            create(admin, "money", 2, Map.of("segment.ms", "3000"));
            for (int round = 0;; round++) {
                produce("plain", round % 2, CODECS[round % CODECS.length], 200, 1000);
                produce("kept", 0, CODECS[round % 3], 100, 100);
                produce("compacted", 0, CODECS[round % 3], 200, 30);
                transaction(round);
                if (round % 12 == 5) {
                    create(admin, "gone-" + round, 1, Map.of("segment.ms", "1000"));
                    produce("gone-" + round, 0, "none", 300, 100);
                }
                if (round % 12 == 9) {
                    say("deleting", "gone-" + (round - 4), 0, 0);
                    admin.deleteTopics(List.of("gone-" + (round - 4))).all().get();
                }
            }
        }
    }

    private static void create(Admin admin, String name, int partitions, Map<String, String> config) throws Exception {
        if (!admin.listTopics().names().get().contains(name)) {
            admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(config))).all().get();
            Thread.sleep(300);
        }
    }

    private Map<String, Object> config(String codec) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", address);
        config.put("key.serializer", ByteArraySerializer.class);
        config.put("value.serializer", ByteArraySerializer.class);
        config.put("acks", "all");
        config.put("linger.ms", 5);
        config.put("batch.size", 4000);
        config.put("compression.type", codec);
        config.put("delivery.timeout.ms", 20000);
        config.put("request.timeout.ms", 10000);
        return config;
    }

    private ProducerRecord<byte[], byte[]> record(String topic, int partition, int keys) {
        long now = number++;
        byte[] filler = new byte[random.nextInt(200)];
        Arrays.fill(filler, (byte) ('a' + now % 26));
        String text = topic + " " + now + " " + new String(filler, StandardCharsets.US_ASCII);
        byte[] key = ("key-" + random.nextInt(keys)).getBytes(StandardCharsets.UTF_8);
        boolean tombstone = topic.equals("compacted") && random.nextInt(20) == 0;
        return new ProducerRecord<>(topic, partition, key, tombstone ? null : text.getBytes(StandardCharsets.UTF_8));
    }

    private void produce(String topic, int partition, String codec, int records, int keys) {
        TreeMap<Long, String> acknowledged = new TreeMap<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config(codec))) {
            for (int i = 0; i < records; i++) {
                ProducerRecord<byte[], byte[]> record = record(topic, partition, keys);
                producer.send(record, (where, error) -> {
                    if (error != null) {
                        System.exit(0);
                    }
                    synchronized (acknowledged) {
                        acknowledged.put(where.offset(), text(record));
                    }
                });
            }
            producer.flush();
        }
        StringBuilder lines = new StringBuilder();
        acknowledged.forEach((offset, text) -> lines.append("record ").append(topic).append(' ').append(partition)
            .append(' ').append(offset).append(' ').append(text).append('\n'));
        System.out.print(lines);
        say("acked", topic, partition, acknowledged.lastKey());
    }

    /** The key of a record, and its number, which is a minus sign for a tombstone. */
    private static String text(ProducerRecord<byte[], byte[]> record) {
        String value = record.value() == null ? "- -" : new String(record.value(), StandardCharsets.UTF_8);
        return new String(record.key(), StandardCharsets.UTF_8) + " " + value.split(" ")[1];
    }

    private void transaction(int round) {
        Map<String, Object> config = config(CODECS[round % CODECS.length]);
        config.put("transactional.id", "soak"); // one: its start ends what a killed run left open
        Map<Integer, Long> last = new TreeMap<>();
        Map<Integer, Long> committed = Map.of();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            producer.initTransactions();
            for (int each = 0; each < 3; each++) {
                last.clear();
                producer.beginTransaction();
                for (int i = 0; i < 40; i++) {
                    producer.send(record("money", i % 2, 100), (where, error) -> {
                        if (error == null) {
                            synchronized (last) {
                                last.merge(where.partition(), where.offset(), Math::max);
                            }
                        }
                    });
                }
                producer.flush(); // only goes on when the markers of the transaction before are written
                committed.forEach((where, offset) -> say("committed", "money", where, offset));
                if ((round + each) % 3 == 0) {
                    producer.abortTransaction();
                    committed = Map.of();
                } else {
                    producer.commitTransaction();
                    committed = new TreeMap<>(last);
                }
            }
        } catch (org.apache.kafka.common.KafkaException error) {
            System.exit(0);
        }
    }

    private static void say(String what, String topic, int partition, long offset) {
        System.out.println(what + " " + topic + " " + partition + " " + offset);
        System.out.flush();
    }
}
