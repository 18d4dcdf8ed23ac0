package logdex;

import java.io.File;
import java.net.InetSocketAddress;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/**
 * Hdfs FOLDER SOURCE...: an HDFS of one name node and one data node, whose files lie below FOLDER, with copies of
 * directories. Prints its address for webhdfs, and ends when its input ends.
 */
public final class Hdfs {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, arguments[0]);
        try (MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings).numDataNodes(1).build()) {
            cluster.waitActive();
            for (int i = 1; i < arguments.length; i++) {
                File source = new File(arguments[i]);
                cluster.getFileSystem().copyFromLocalFile(new Path(source.toURI()), new Path("/" + source.getName()));
            }
            InetSocketAddress web = cluster.getNameNode().getHttpAddress();
            System.out.println("webhdfs://" + web.getHostString() + ":" + web.getPort());
            System.out.flush();
            while (System.in.read() >= 0) {}
        }
    }
}
