import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Locale;
import java.util.PriorityQueue;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.SystemClock;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageStatus;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Writes the demo's store with the released broker's DefaultMessageStore: a small shop's orders, payments and shipments
 * over one week. `make` beside this file runs it.
 *
 * <pre>java -cp CLASSPATH WriteDemo.java DIRECTORY MESSAGES</pre>
 *
 * CommitLog files of 4 MiB, so that there are several; all else has the broker's default size.
 */
public final class WriteDemo {
    private static final long START = 1_772_409_600_000L; // 2026-03-02T00:00:00Z, a Monday
    private static final String[][] STEPS = {
        {"orders", "created"}, {"payments", "authorised"}, {"orders", "confirmed"}, {"payments", "captured"},
        {"shipments", "packed"}, {"shipments", "shipped"}, {"shipments", "delivered"}, {"orders", "completed"}};
    private static final String[] GOODS = {"green tea 250 g", "teapot, cast iron", "bowl, stoneware", "honey 500 g",
        "oat biscuits", "linen cloth", "coffee beans 1 kg", "hand grinder", "jam, apricot", "chopping board"};
    private static final String[] CITIES = {"Graz", "Basel", "Lyon", "Porto", "Gdańsk", "Malmö", "Utrecht", "Brno"};

    private record Event(long time, int order, int step) {
    }

    /** Stands still until it is set; decides every storeTimestamp. */
    private static final class SetClock extends SystemClock {
        private volatile long now = START;

        @Override
        public long now() {
            return now;
        }
    }

    public static void main(String[] args) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(args[0]);
        config.setStorePathCommitLog(args[0] + "/commitlog");
        config.setMappedFileSizeCommitLog(4 << 20);
        config.setHaListenPort(0);
        config.setTimerWheelEnable(false);
        config.setEnableCompaction(false);
        DefaultMessageStore store = new DefaultMessageStore(config, new BrokerStatsManager("demo", true), null,
            new BrokerConfig(), new ConcurrentHashMap<>());
        SetClock clock = new SetClock();
        Field field = DefaultMessageStore.class.getDeclaredField("systemClock");
        field.setAccessible(true);
        field.set(store, clock);
        if (!store.load()) {
            throw new IllegalStateException("load failed");
        }
        store.start();
        write(store, clock, Integer.parseInt(args[1]));
        while (store.dispatchBehindBytes() > 0) {
            Thread.sleep(5);
        }
        store.shutdown();
        System.exit(0);
    }

    private static void write(DefaultMessageStore store, SetClock clock, int count) throws Exception {
        Random random = new Random(2026);
        int orders = count / STEPS.length;
        PriorityQueue<Event> due = new PriorityQueue<>((a, b) -> a.time != b.time
            ? Long.compare(a.time, b.time) : Integer.compare(a.order, b.order));
        for (int order = 0; order < orders; order++) {
            due.add(new Event(START + (long) (random.nextDouble() * 5 * 86_400_000L), order, 0));
        }
        while (!due.isEmpty()) {
            Event event = due.poll();
            clock.now = event.time;
            PutMessageStatus status = store.putMessage(message(event)).getPutMessageStatus();
            if (status != PutMessageStatus.PUT_OK) {
                throw new IllegalStateException("put: " + status);
            }
            if (event.step + 1 < STEPS.length) {
                long later = event.step < 3 ? 200 + random.nextInt(90_000) : 600_000 + random.nextInt(30_000_000);
                due.add(new Event(event.time + later, event.order, event.step + 1));
            }
        }
    }

    private static MessageExtBrokerInner message(Event event) {
        Random own = new Random(31L * event.order);
        String topic = STEPS[event.step][0];
        String order = "order-" + (100_000 + event.order);
        String customer = "customer-" + own.nextInt(800);
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        MessageAccessor.setProperties(message, new HashMap<>());
        message.setTopic(topic);
        message.setQueueId(event.order % (topic.equals("shipments") ? 2 : 4));
        message.setBody(body(event, own, order, customer).getBytes(StandardCharsets.UTF_8));
        message.setBornTimestamp(event.time - 3);
        message.setBornHost(new InetSocketAddress("10.0.0." + (10 + event.step), 40000));
        message.setStoreHost(new InetSocketAddress("127.0.0.1", 10911));
        message.setTags(STEPS[event.step][1]);
        message.setKeys(order + " " + customer);
        MessageClientIDSetter.setUniqID(message);
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        return message;
    }

    private static String body(Event event, Random own, String order, String customer) {
        StringBuilder lines = new StringBuilder();
        int cents = 0;
        for (int i = 1 + own.nextInt(3); i > 0; i--) {
            int good = own.nextInt(GOODS.length);
            int quantity = 1 + own.nextInt(4);
            int price = 350 + 425 * good;
            cents += quantity * price;
            lines.append(lines.length() == 0 ? "" : ", ").append(String.format(Locale.ROOT,
                "{\"item\": \"%s\", \"quantity\": %d, \"price\": %d.%02d}", GOODS[good], quantity, price / 100, price % 100));
        }
        return String.format(Locale.ROOT, "{\"order\": \"%s\", \"customer\": \"%s\", \"event\": \"%s\", \"city\": \"%s\", "
            + "\"currency\": \"EUR\", \"total\": %d.%02d, \"lines\": [%s]}", order, customer, STEPS[event.step][1],
            CITIES[own.nextInt(CITIES.length)], cents / 100, cents % 100, lines);
    }
}
