package logdex;

import java.util.HashSet;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.store.LocalFileOffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The engine's own classes that keep consumer offsets, on given files.
 *
 * <pre>
 * logdex.OffsetFiles broker FILE [TOPIC@GROUP QUEUE OFFSET]...    loads, prints, sets and persists
 * logdex.OffsetFiles client GROUP BROKER TOPIC QUEUES [QUEUE OFFSET]...
 * </pre>
 *
 * The client's directory is the system property rocketmq.client.localOffsetStoreDir; its id is always the same.
 */
public final class OffsetFiles {
    private OffsetFiles() {
    }

    public static void main(String[] argv) throws Exception {
        if (argv[0].equals("broker")) {
            broker(argv);
        } else {
            client(argv);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void broker(String[] argv) {
        ConsumerOffsetManager offsets = new ConsumerOffsetManager() {
            @Override
            public String configFilePath() {
                return argv[1];
            }
        };
        if (!offsets.load()) {
            throw new IllegalStateException("load failed");
        }
        offsets.getOffsetTable().forEach((name, queues) -> System.out.println(name + " " + new TreeMap<>(queues)));
        for (int at = 2; at < argv.length; at += 3) {
            ConcurrentMap<Integer, Long> queues =
                offsets.getOffsetTable().computeIfAbsent(argv[at], name -> new ConcurrentHashMap<>());
            queues.put(Integer.valueOf(argv[at + 1]), Long.valueOf(argv[at + 2]));
        }
        if (argv.length > 2) {
            offsets.persist();
        }
    }

    private static void client(String[] argv) throws Exception {
        ClientConfig config = new ClientConfig();
        config.setClientIP("127.0.0.1");
        config.setInstanceName("DEFAULT");
        MQClientInstance instance = MQClientManager.getInstance().getOrCreateMQClientInstance(config);
        LocalFileOffsetStore offsets = new LocalFileOffsetStore(instance, argv[1]);
        offsets.load();
        Set<MessageQueue> names = new HashSet<>();
        for (int queue = 0; queue < Integer.parseInt(argv[4]); queue++) {
            MessageQueue name = new MessageQueue(argv[3], argv[2], queue);
            names.add(name);
            System.out.println(queue + " " + offsets.readOffset(name, ReadOffsetType.READ_FROM_STORE));
        }
        for (int at = 5; at < argv.length; at += 2) {
            MessageQueue name = new MessageQueue(argv[3], argv[2], Integer.parseInt(argv[at]));
            offsets.updateOffset(name, Long.parseLong(argv[at + 1]), false);
            offsets.persistAll(names);
        }
    }
}
