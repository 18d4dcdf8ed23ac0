package logdex;

import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * A name server and a broker on a store that is there, a producer that sends some messages, and a push consumer that
 * goes on where its group is. Ends cleanly once nothing comes for a while.
 *
 * <pre>logdex.ConsumeStore --dir D --group G --topic T [--messages N] [--later BODY] + geometry</pre>
 *
 * Prints "QUEUE OFFSET TIMES BODY" of each message that was consumed. The message with the body --later is asked for
 * again, once.
 */
public final class ConsumeStore {
    private ConsumeStore() {
    }

    public static void main(String[] argv) {
        try {
            run(new Args(argv));
            System.out.flush();
            Runtime.getRuntime().halt(0);
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static void run(Args args) throws Exception {
        Path home = Files.createTempDirectory("consumestore-");
        System.setProperty("user.home", home.toString());
        System.setProperty("rocketmq.home.dir", home.toString());
        System.setProperty("rocketmq.client.rebalance.waitInterval", "1000");
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, Integer.toString(MQVersion.CURRENT_VERSION));
        NettyServerConfig net = new NettyServerConfig();
        net.setListenPort(freePort());
        Engine.loopback(net);
        NamesrvController names = new NamesrvController(new NamesrvConfig(), net);
        check(names.initialize(), "name server");
        names.start();
        String address = "127.0.0.1:" + net.getListenPort();
        BrokerConfig config = new BrokerConfig();
        config.setBrokerName("golden");
        config.setBrokerClusterName("golden");
        config.setBrokerIP1("127.0.0.1");
        config.setBrokerIP2("127.0.0.1");
        config.setNamesrvAddr(address);
        NettyServerConfig brokerNet = new NettyServerConfig();
        brokerNet.setListenPort(freePort());
        BrokerController broker = Engine.broker(config, brokerNet, Geometry.config(args.need("dir"), args));
        check(broker.initialize(), "broker");
        broker.start();
        for (int i = 0; names.getRouteInfoManager().pickupTopicRouteData(args.need("topic")) == null; i++) {
            check(i < 600, "route");
            Thread.sleep(100);
        }
        work(args, address);
        broker.shutdown();
        names.shutdown();
        new ProcessBuilder("rm", "-rf", home.toString()).start().waitFor();
    }

    private static void work(Args args, String address) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("P");
        producer.setNamesrvAddr(address);
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        for (int i = 0; i < args.number("messages", 0); i++) {
            String body = "real-" + i;
            producer.send(new Message(args.need("topic"), "sent", body, body.getBytes(StandardCharsets.UTF_8)));
        }
        String later = args.has("later") ? args.need("later") : null;
        AtomicLong last = new AtomicLong(System.currentTimeMillis());
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args.need("group"));
        consumer.setNamesrvAddr(address);
        consumer.setVipChannelEnabled(false);
        consumer.setPollNameServerInterval(1000); // for the route of a new retry topic
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args.need("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            String body = new String(message.getBody(), StandardCharsets.UTF_8);
            last.set(System.currentTimeMillis());
            if (body.equals(later) && message.getReconsumeTimes() == 0) {
                context.setDelayLevelWhenNextConsume(1);
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            System.out.println(message.getQueueId() + " " + message.getQueueOffset() + " " + message.getReconsumeTimes()
                + " " + body);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        while (System.currentTimeMillis() - last.get() < 12_000) {
            Thread.sleep(100);
        }
        consumer.shutdown();
        producer.shutdown();
    }

    private static int freePort() throws Exception {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            int port = socket.getLocalPort();
            return port > 60000 ? port - 1000 : port;
        }
    }

    private static void check(boolean good, String what) {
        if (!good) {
            throw new IllegalStateException(what + " did not start");
        }
    }
}
