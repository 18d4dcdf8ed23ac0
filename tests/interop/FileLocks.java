import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Scanner;

/** Answers each line of its input: `kafka PATH` and `rocketmq PATH` take the lock as that broker does, `release` gives
 * it up. Prints `taken`, `refused` or `released`. */
public class FileLocks {
    public static void main(String[] arguments) throws Exception {
        Scanner input = new Scanner(System.in);
        FileChannel channel = null;
        while (input.hasNextLine()) {
            String[] words = input.nextLine().split(" ", 2);
            if (channel != null) {
                channel.close();
                channel = null;
            }
            String said = "released";
            if (!words[0].equals("release")) {
                channel = FileChannel.open(Path.of(words[1]), StandardOpenOption.CREATE, StandardOpenOption.READ,
                    StandardOpenOption.WRITE);
                // Kafka's FileLock.tryLock; RocketMQ's DefaultMessageStore.start
                FileLock lock = words[0].equals("kafka") ? channel.tryLock() : channel.tryLock(0, 1, false);
                said = lock == null ? "refused" : "taken";
            }
            System.out.println(said);
        }
    }
}
