package logdex;

import java.io.File;
import java.io.FileWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.PutMessageStatus;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Plays histories of stores with the real engine, each from a script of its own and beside the others.
 *
 * <pre>logdex.HistoryStore --scripts DIR + geometry</pre>
 *
 * Of each NAME.script in DIR the store is DIR/NAME. Its lines:
 * {@code open INDEX SAFE} (messageIndexEnable, messageIndexSafe: 0 or 1), {@code put COUNT FIRST_NUMBER SEED},
 * {@code clock MILLISECONDS}, {@code delete TOPIC}, {@code retain}, {@code close},
 * {@code crash LINGER_MS} (the directory as a killed process leaves it that much later),
 * {@code keep COPY} (copies the directory to DIR/COPY), {@code serve} (writes to NAME.served the physical offset of
 * each message that getMessage gives of any queue). In NAME.puts is a line for each message:
 * {@code NUMBER PHYSICAL_OFFSET SIZE}.
 */
public final class HistoryStore {
    private static final String[] TOPICS = {"T", "U"};
    private static final String[] TAGS = {null, "Aa", "BB", "red"};
    private static final String[] KEYS = {"hot", "Aa", "BB", "AaAa", "BBBB", "x"};
    private static final int QUEUES = 3;
    /** Where a message states its own physical offset. */
    private static final int PHYSICAL_OFFSET = 28;
    private static final int[] STEPS_MS = {0, 0, 1, 40, 1500, 60_000};

    private final Args args;
    private final Path directory;
    private final StepClock clock = new StepClock(1_700_000_000_123L);
    private final PrintWriter puts;
    private DefaultMessageStore store;
    private MessageStoreConfig config;
    private final Set<String> topics = new TreeSet<>(Set.of(TOPICS));

    private HistoryStore(Args args, Path directory, PrintWriter puts) {
        this.args = args;
        this.directory = directory;
        this.puts = puts;
    }

    public static void main(String[] argv) throws Exception {
        Args args = new Args(argv);
        ExecutorService threads = Executors.newFixedThreadPool(6);
        List<Future<?>> played = new ArrayList<>();
        for (File script : new File(args.need("scripts")).listFiles((folder, name) -> name.endsWith(".script"))) {
            Path directory = Path.of(script.getPath().replaceAll("\\.script$", ""));
            played.add(threads.submit(() -> {
                try (PrintWriter puts = new PrintWriter(new FileWriter(directory + ".puts", StandardCharsets.UTF_8, true))) {
                    HistoryStore history = new HistoryStore(args, directory, puts);
                    for (String line : Files.readAllLines(script.toPath())) {
                        history.step(line.split(" "));
                    }
                }
                return null;
            }));
        }
        int code = 0;
        for (Future<?> each : played) {
            try {
                each.get();
            } catch (ExecutionException error) {
                error.printStackTrace();
                code = 1;
            }
        }
        Runtime.getRuntime().halt(code);
    }

    private void step(String[] words) throws Exception {
        switch (words[0]) {
            case "open" -> open(words[1].equals("1"), words[2].equals("1"));
            case "put" -> {
                Random random = new Random(Long.parseLong(words[3]));
                for (int i = 0; i < Integer.parseInt(words[1]); i++) {
                    put(Long.parseLong(words[2]) + i, random);
                    settle();
                }
            }
            case "clock" -> clock.move(Long.parseLong(words[1]));
            case "delete" -> deleteTopic(words[1]);
            case "retain" -> retain();
            case "close" -> store.shutdown();
            case "crash" -> crash(Long.parseLong(words[1]));
            case "serve" -> serve();
            case "keep" -> copy(directory, directory.resolveSibling(words[1]));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private void open(boolean isIndexed, boolean isSafe) throws Exception {
        config = Geometry.config(directory.toString(), args);
        config.setMessageIndexEnable(isIndexed);
        config.setMessageIndexSafe(isSafe);
        config.setDeleteCommitLogFilesInterval(1);
        synchronized (HistoryStore.class) { // 4.x fills a static map of its statistics there
            store = Engine.create(config);
        }
        clock.installIn(store);
        slowDispatch();
        if (!store.load()) {
            throw new IllegalStateException("load failed: " + directory);
        }
        Engine.start(store, config);
        settle();
        Path known = directory.resolve("config").resolve("topics.json");
        if (Files.exists(known)) {
            String text = Files.readString(known);
            topics.removeIf(topic -> !text.contains('"' + topic + "\":{"));
        }
        writeTopics();
    }

    /**
     * Holds each dispatch for a millisecond. The engine names an IndexFile by the millisecond of its creation and
     * does not look whether the name is taken: of two small files that begin within one, the second overwrites the
     * first.
     */
    private void slowDispatch() {
        store.getDispatcherList().add(request -> {
            try {
                Thread.sleep(1);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        });
    }

    private void put(long number, Random random) throws Exception {
        clock.move(STEPS_MS[random.nextInt(STEPS_MS.length)]);
        StoreMessage message = new StoreMessage();
        MessageAccessor.setProperties(message, new HashMap<>());
        message.setTopic(TOPICS[random.nextInt(TOPICS.length)]);
        if (topics.add(message.getTopic())) {
            writeTopics();
        }
        message.setQueueId(random.nextInt(QUEUES));
        message.setBody((number + " " + "x".repeat(random.nextInt(3) * 100)).getBytes(StandardCharsets.UTF_8));
        message.setBornTimestamp(clock.now());
        message.setBornHost(new InetSocketAddress("10.1.2.3", 40000));
        message.setStoreHost(new InetSocketAddress("127.0.0.1", 10911));
        String tag = TAGS[random.nextInt(TAGS.length)];
        if (tag != null) {
            message.setTags(tag);
        }
        StringBuilder keys = new StringBuilder();
        for (int left = random.nextInt(4); left > 0; left--) {
            keys.append(left > 1 ? KEYS[random.nextInt(KEYS.length)] + " " : "n" + number);
        }
        if (keys.length() > 0) {
            message.setKeys(keys.toString());
        }
        if (random.nextInt(5) > 0) {
            MessageAccessor.putProperty(message, "UNIQ_KEY", String.format("U%031d", number));
        }
        int kind = random.nextInt(12);
        message.setSysFlag(kind == 9 ? 4 : kind == 10 ? 8 : kind == 11 ? 12 : 0);
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        PutMessageResult result = store.putMessage(message);
        if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
            throw new IllegalStateException("put: " + result.getPutMessageStatus());
        }
        puts.println(number + " " + result.getAppendMessageResult().getWroteOffset() + " "
            + result.getAppendMessageResult().getWroteBytes());
    }

    private void settle() throws InterruptedException {
        while (store.dispatchBehindBytes() > 0) {
            Thread.sleep(1);
        }
    }

    /** 5.x names what goes, 4.x what stays. */
    private void deleteTopic(String gone) throws Exception {
        topics.remove(gone);
        writeTopics();
        for (Method method : store.getClass().getMethods()) {
            if (method.getName().equals("deleteTopics")) {
                method.invoke(store, new HashSet<>(Set.of(gone)));
                return;
            }
        }
        Set<String> stay = new HashSet<>(Set.of(TOPICS));
        stay.remove(gone);
        store.getClass().getMethod("cleanUnusedTopic", Set.class).invoke(store, stay);
    }

    /** Removes the oldest CommitLog files, at most ten and never the newest, and what is derived from them. */
    private void retain() throws Exception {
        config.setFileReservedTime(0);
        store.executeDeleteFilesManually();
        run(field(store, "cleanCommitLogService"));
        Object owner = store; // 4.x: the store; 5.x: its ConsumeQueueStore, which may be one of several
        while (field(owner, "cleanConsumeQueueService") == null) {
            owner = field(owner, "consumeQueueStore");
        }
        run(field(owner, "cleanConsumeQueueService"));
        config.setFileReservedTime(24 * 365 * 100);
    }

    private static Object field(Object of, String name) throws IllegalAccessException {
        for (Class<?> type = of.getClass(); type != null; type = type.getSuperclass()) {
            try {
                Field field = type.getDeclaredField(name);
                field.setAccessible(true);
                return field.get(of);
            } catch (NoSuchFieldException error) {
                continue;
            }
        }
        return null;
    }

    private static void run(Object service) throws ReflectiveOperationException {
        Method run = service.getClass().getMethod("run");
        run.setAccessible(true);
        run.invoke(service);
    }

    private void serve() throws Exception {
        StringBuilder served = new StringBuilder();
        for (String topic : TOPICS) {
            for (int queue = 0; queue < QUEUES; queue++) {
                long end = store.getMaxOffsetInQueue(topic, queue);
                for (long offset = store.getMinOffsetInQueue(topic, queue); offset < end;) {
                    GetMessageResult result = store.getMessage("history", topic, queue, offset, 32, null);
                    for (ByteBuffer buffer : result.getMessageBufferList()) {
                        served.append(buffer.getLong(PHYSICAL_OFFSET)).append('\n');
                    }
                    result.release();
                    offset = Math.max(result.getNextBeginOffset(), offset + 1);
                }
            }
        }
        Files.writeString(Path.of(directory + ".served"), served);
    }

    private void crash(long lingerMs) throws Exception {
        settle();
        Thread.sleep(lingerMs);
        Path left = directory.resolveSibling(directory.getFileName() + ".left");
        copy(directory, left);
        store.shutdown();
        remove(directory);
        Files.move(left, directory);
    }

    /** The topics that there are, as a broker keeps them. */
    private void writeTopics() throws IOException {
        StringBuilder text = new StringBuilder("{\"dataVersion\":{},\"topicConfigTable\":{");
        for (String topic : topics) {
            text.append(text.charAt(text.length() - 1) == '{' ? "" : ",");
            text.append('"').append(topic).append("\":{\"topicName\":\"").append(topic).append("\"}");
        }
        Files.createDirectories(directory.resolve("config"));
        Files.writeString(directory.resolve("config").resolve("topics.json"), text.append("}}").toString());
    }

    private static void copy(Path from, Path to) throws IOException {
        remove(to);
        try (Stream<Path> found = Files.walk(from)) {
            for (Path path : (Iterable<Path>) found::iterator) {
                Files.copy(path, to.resolve(from.relativize(path).toString()), StandardCopyOption.COPY_ATTRIBUTES);
            }
        }
    }

    private static void remove(Path directory) throws IOException {
        if (!Files.exists(directory)) {
            return;
        }
        try (Stream<Path> found = Files.walk(directory)) {
            for (Path path : (Iterable<Path>) found.sorted(Comparator.reverseOrder())::iterator) {
                Files.delete(path);
            }
        }
    }
}
