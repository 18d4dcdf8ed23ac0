package logdex;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * The real engine as a master or as a slave.
 *
 * <pre>logdex.HaStore --dir D --role ASYNC_MASTER|SYNC_MASTER|SLAVE --listen PORT [--master HOST:PORT] + geometry</pre>
 *
 * Reads commands from standard input, one per line, and answers each with one line: {@code put COUNT} puts messages and
 * answers with the status of the last one; {@code end} answers with the physical offset after the last message;
 * {@code behind} with the bytes that are not dispatched. The end of the input shuts it down cleanly.
 */
public final class HaStore {
    private static long number;

    private HaStore() {
    }

    public static void main(String[] argv) throws Exception {
        Args args = new Args(argv);
        MessageStoreConfig config = Geometry.config(args.need("dir"), args);
        BrokerRole role = BrokerRole.valueOf(args.need("role"));
        config.setBrokerRole(role);
        config.setHaListenPort(args.number("listen", 0));
        config.setHaSendHeartbeatInterval(300);
        config.setSlaveTimeout(5000);
        replicas(config);
        DefaultMessageStore store = Engine.create(config);
        if (!store.load()) {
            throw new IllegalStateException("load failed");
        }
        store.start();
        if (args.has("master")) {
            store.updateHaMasterAddress(args.need("master"));
        }
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("put")) {
                say(put(store, Integer.parseInt(words[1])));
            } else if (words[0].equals("behind")) {
                say(Long.toString(store.dispatchBehindBytes()));
            } else {
                say(Long.toString(store.getMaxPhyOffset()));
            }
        }
        store.shutdown();
        Runtime.getRuntime().halt(0);
    }

    /** A put of a SYNC_MASTER waits for one slave; 4.x does so by itself. */
    private static void replicas(MessageStoreConfig config) throws ReflectiveOperationException {
        for (java.lang.reflect.Method method : MessageStoreConfig.class.getMethods()) {
            if (method.getName().equals("setInSyncReplicas")) {
                method.invoke(config, 2);
            }
        }
    }

    private static void say(String line) {
        System.out.println("> " + line);
        System.out.flush();
    }

    private static String put(DefaultMessageStore store, int count) {
        String status = "none";
        for (int i = 0; i < count; i++, number++) {
            StoreMessage message = new StoreMessage();
            MessageAccessor.setProperties(message, new HashMap<>());
            byte[] body = new byte[(int) (number * 37 % 900)];
            Arrays.fill(body, (byte) ('a' + number % 26));
            message.setTopic("Topic" + number % 3);
            message.setQueueId((int) (number % 4));
            message.setBody(body);
            message.setBornTimestamp(System.currentTimeMillis());
            message.setBornHost(new InetSocketAddress("10.1.2.3", 40000));
            message.setStoreHost(new InetSocketAddress("127.0.0.1", 10911));
            message.setTags("Tag" + (char) ('A' + number % 3));
            message.setKeys("n" + number);
            message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
            PutMessageResult result = store.putMessage(message);
            status = result.getPutMessageStatus().name();
        }
        return status;
    }
}
