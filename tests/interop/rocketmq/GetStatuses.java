package logdex;

import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import org.apache.rocketmq.store.CommitLog;
import org.apache.rocketmq.store.ConsumeQueueExt;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.MessageFilter;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * What the real engine's getMessage answers.
 *
 * <pre>logdex.GetStatuses --dir D --asked "TOPIC QUEUE OFFSET COUNT TAG;..." [--expire] + geometry</pre>
 *
 * With --expire CommitLog files are removed first, as the engine removes expired ones, and the queues do not know of
 * it yet: the engine tells them in a later step. Prints "STATUS NEXT MIN MAX MESSAGES" for each question; a TAG of * means all.
 */
public final class GetStatuses {
    private GetStatuses() {
    }

    public static void main(String[] argv) throws Exception {
        Args args = new Args(argv);
        MessageStoreConfig config = Geometry.config(args.need("dir"), args);
        DefaultMessageStore store = Engine.create(config);
        if (!store.load()) {
            throw new IllegalStateException("load failed");
        }
        Engine.start(store, config);
        while (store.dispatchBehindBytes() != 0) {
            Thread.sleep(10);
        }
        if (args.has("expire")) {
            expire(store.getCommitLog());
        }
        for (String question : args.need("asked").split(";")) {
            String[] parts = question.split(" ");
            GetMessageResult found = store.getMessage("G", parts[0], Integer.parseInt(parts[1]),
                Long.parseLong(parts[2]), Integer.parseInt(parts[3]), parts[4].equals("*") ? null : filter(parts[4]));
            System.out.println(found.getStatus() + " " + found.getNextBeginOffset() + " " + found.getMinOffset() + " "
                + found.getMaxOffset() + " " + found.getMessageCount());
            found.release();
        }
        System.out.flush();
        store.shutdown();
        Runtime.getRuntime().halt(0);
    }

    /** Calls CommitLog.deleteExpiredFile, whose last parameters differ from version to version. */
    private static void expire(CommitLog log) throws Exception {
        for (Method method : CommitLog.class.getMethods()) {
            if (method.getName().equals("deleteExpiredFile")) {
                Object[] values = {0L, 0, 0L, true, 1000};
                int count = method.getParameterCount();
                int removed = (Integer) method.invoke(log, Arrays.copyOf(values, count));
                if (removed < 1) {
                    throw new IllegalStateException("nothing was removed");
                }
                return;
            }
        }
    }

    private static MessageFilter filter(String tag) {
        return new MessageFilter() {
            @Override
            public boolean isMatchedByConsumeQueue(Long tagsCode, ConsumeQueueExt.CqExtUnit unit) {
                return tagsCode != null && tagsCode.intValue() == tag.hashCode();
            }

            @Override
            public boolean isMatchedByCommitLog(ByteBuffer message, Map<String, String> properties) {
                return true;
            }
        };
    }
}
