package logdex;

import java.io.File;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.store.AppendMessageResult;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.PutMessageStatus;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Puts messages into the real engine until its standard input is closed or it is killed.
 *
 * <pre>logdex.SoakStore --dir D --number FIRST [--rate MESSAGES_PER_SECOND] [--keep 1] [--gone 1]
 *     + geometry</pre>
 *
 * The body of a message is "NUMBER " and a filler that the number decides; numbers go up by one. Beside every seventh
 * there is a half message with the body "half NUMBER ..." and its end, a commit for every second and else a rollback;
 * beside every eleventh a delayed message with the body "late NUMBER ...". Every few seconds the engine removes the
 * oldest CommitLog files, with what is derived from them. It would also remove a file that it has not dispatched yet,
 * and would then put all later entries into the wrong places. So no message begins a next file before all messages
 * ahead of it are dispatched. Lines on standard output, flushed: {@code acked NUMBER}: the engine said PUT_OK of that
 * message and all before it; {@code committed NUMBER}: it said so of the message that commits the half message of that
 * number. With {@code --keep 1} nothing is removed.
 *
 * With {@code --gone 1} there are topics that are deleted and come back. Beside every third message there is one with
 * the body "gone NUMBER ..." in a topic Gone-N; after every 3,000 numbers the next of three such topics takes its turn.
 * It is created when its turn begins, and deleted after the turn of the next topic. A line
 * {@code life Gone-N NUMBER} says that the first message of a new life of the topic was acknowledged.
 */
public final class SoakStore {
    private SoakStore() {
    }

    public static void main(String[] argv) throws Exception {
        Args args = new Args(argv);
        MessageStoreConfig config = Geometry.config(args.need("dir"), args);
        boolean keep = args.number("keep", 0) == 1;
        config.setFileReservedTime(keep ? 72 : 0);
        config.setCleanResourceInterval(500);
        config.setDestroyMapedFileIntervalForcibly(1000);
        DefaultMessageStore store = Engine.create(config);
        if (!store.load()) {
            throw new IllegalStateException("load failed");
        }
        Engine.start(store, config);
        Thread ender = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // until the other side closes our standard input
                }
            } catch (java.io.IOException error) {
                System.err.println(error);
            }
            ended = true;
        });
        ender.setDaemon(true);
        ender.start();
        long number = args.big("number", 0);
        int rate = args.number("rate", 3000);
        Random random = new Random(number);
        long begin = System.nanoTime();
        long deleted = begin;
        fileSize = config.getMappedFileSizeCommitLog();
        boolean gone = args.number("gone", 0) == 1;
        if (gone) {
            beginTopics(args.need("dir"));
        }
        for (long put = 0; !ended; put++, number++) {
            put(store, number, random);
            if (number % 7 == 0) {
                transaction(store, number, random);
            }
            if (number % 11 == 0) {
                delayed(store, number, random);
            }
            if (gone) {
                gone(store, number, random);
            }
            if (put % 200 == 199) {
                System.out.println("acked " + number);
                System.out.flush();
                long ahead = put * 1_000_000_000L / rate - (System.nanoTime() - begin);
                if (ahead > 0) {
                    Thread.sleep(ahead / 1_000_000);
                }
            }
            if (!keep && System.nanoTime() - deleted > 4_000_000_000L) {
                deleted = System.nanoTime();
                store.executeDeleteFilesManually();
            }
        }
        store.shutdown();
        Runtime.getRuntime().halt(0);
    }

    private static volatile boolean ended;
    private static int fileSize;

    private static void put(DefaultMessageStore store, long number, Random random) throws InterruptedException {
        StoreMessage message = message(number, "", random);
        message.setTopic(number % 5 == 0 ? "Other" : "Plain");
        message.setQueueId((int) (number % 4));
        message.setKeys("k" + number % 1000 + " n" + number);
        store(store, message);
    }

    /** A half message, then what ends it, as a broker's transaction service puts them. */
    private static void transaction(DefaultMessageStore store, long number, Random random)
            throws InterruptedException {
        StoreMessage half = message(number, "half ", random);
        half.setTopic("RMQ_SYS_TRANS_HALF_TOPIC");
        MessageAccessor.putProperty(half, "TRAN_MSG", "true");
        MessageAccessor.putProperty(half, "REAL_TOPIC", "Plain");
        MessageAccessor.putProperty(half, "REAL_QID", Long.toString(number % 4));
        AppendMessageResult at = store(store, half).getAppendMessageResult();
        if (number % 14 == 7) {
            StoreMessage committed = message(number, "half ", random);
            committed.setTopic("Plain");
            committed.setQueueId((int) (number % 4));
            committed.setSysFlag(MessageSysFlag.TRANSACTION_COMMIT_TYPE);
            committed.setPreparedTransactionOffset(at.getWroteOffset());
            store(store, committed);
            System.out.println("committed " + number);
        }
        StoreMessage end = message(number, "", random);
        end.setTopic("RMQ_SYS_TRANS_OP_HALF_TOPIC");
        end.setTags("d");
        end.setBody((at.getLogicsOffset() + ",").getBytes(StandardCharsets.UTF_8));
        store(store, end);
    }

    private static void delayed(DefaultMessageStore store, long number, Random random) throws InterruptedException {
        StoreMessage message = message(number, "late ", random);
        message.setTopic("SCHEDULE_TOPIC_XXXX");
        MessageAccessor.putProperty(message, "DELAY", "1");
        MessageAccessor.putProperty(message, "REAL_TOPIC", "Plain");
        MessageAccessor.putProperty(message, "REAL_QID", "0");
        store(store, message);
    }

    private static final Set<String> TOPICS = new TreeSet<>();
    private static final int TURN = 3000;
    private static String topicsFile;

    /** Writes the first topics.json: what the store has, and the topics that a broker always has there. */
    private static void beginTopics(String directory) {
        topicsFile = directory + "/config/topics.json";
        TOPICS.addAll(Set.of("Plain", "Other", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC",
            "RMQ_SYS_TRANS_OP_HALF_TOPIC"));
        String[] found = new File(directory, "consumequeue").list();
        if (found != null) {
            TOPICS.addAll(Arrays.asList(found));
        }
        writeTopics();
    }

    /** Writes topics.json in the broker's own way. */
    private static void writeTopics() {
        StringBuilder text = new StringBuilder();
        for (String topic : TOPICS) {
            text.append(text.length() == 0 ? "" : ",").append('"').append(topic).append("\":{\"topicName\":\"")
                .append(topic).append("\",\"order\":false,\"perm\":6,\"readQueueNums\":4,\"writeQueueNums\":4,")
                .append("\"topicFilterType\":\"SINGLE_TAG\",\"topicSysFlag\":0}");
        }
        try {
            MixAll.string2File("{\"dataVersion\":{\"counter\":1,\"timestamp\":1},\"topicConfigTable\":{" + text + "}}",
                topicsFile);
        } catch (Exception error) { // which one depends on the version
            throw new IllegalStateException(error);
        }
    }

    /** A message of the topic whose turn it is. Topics are created and deleted in the order of a broker. */
    private static void gone(DefaultMessageStore store, long number, Random random) throws Exception {
        long turn = number / TURN;
        String topic = "Gone-" + turn % 3;
        if (number % TURN == 0) {
            deleteTopic(store, "Gone-" + (turn + 1) % 3);
        }
        if (number % 3 != 0) {
            return;
        }
        boolean begins = TOPICS.add(topic);
        if (begins) {
            writeTopics();
        }
        StoreMessage message = message(number, "gone ", random);
        message.setTopic(topic);
        message.setQueueId((int) (number / 3 % 2));
        message.setKeys("g" + number);
        long offset = store(store, message).getAppendMessageResult().getLogicsOffset();
        if (begins && offset != 0) {
            throw new IllegalStateException(topic + " begins with offset " + offset);
        }
        if (begins) {
            System.out.println("life " + topic + " " + number);
        }
    }

    /** 5.x names what goes, 4.x what stays. */
    private static void deleteTopic(DefaultMessageStore store, String topic) throws Exception {
        if (!TOPICS.remove(topic)) {
            return;
        }
        while (store.dispatchBehindBytes() > 0) {
            Thread.sleep(1);
        }
        writeTopics();
        for (Method method : store.getClass().getMethods()) {
            if (method.getName().equals("deleteTopics")) {
                method.invoke(store, new TreeSet<>(Set.of(topic)));
                return;
            }
        }
        store.getClass().getMethod("cleanUnusedTopic", Set.class).invoke(store, new TreeSet<>(TOPICS));
    }

    private static StoreMessage message(long number, String kind, Random random) {
        StoreMessage message = new StoreMessage();
        MessageAccessor.setProperties(message, new HashMap<>());
        byte[] filler = new byte[random.nextInt(600)];
        Arrays.fill(filler, (byte) ('a' + number % 26));
        String text = kind + number + " " + new String(filler, StandardCharsets.US_ASCII);
        message.setBody(text.getBytes(StandardCharsets.UTF_8));
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(new InetSocketAddress("10.1.2.3", 40000));
        message.setStoreHost(new InetSocketAddress("127.0.0.1", 10911));
        message.setTags("Tag" + (char) ('A' + number % 3));
        MessageAccessor.putProperty(message, "UNIQ_KEY", String.format("U%031d", number));
        return message;
    }

    private static PutMessageResult store(DefaultMessageStore store, StoreMessage message) throws InterruptedException {
        while (fileSize - store.getMaxPhyOffset() % fileSize < 8192 && store.dispatchBehindBytes() > 0) {
            Thread.sleep(1);
        }
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        PutMessageResult result = store.putMessage(message);
        if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
            System.err.println("put: " + result.getPutMessageStatus());
            Runtime.getRuntime().halt(3);
        }
        return result;
    }
}
