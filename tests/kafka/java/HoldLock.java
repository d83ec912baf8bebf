import java.io.File;
import org.apache.kafka.server.util.FileLock;

/**
 * Takes a lock file as a broker takes `.lock` of a log directory, and holds it until standard input ends.
 * Prints "held PID", or "refused" and ends.
 */
public final class HoldLock {
    public static void main(String[] arguments) throws Exception {
        FileLock lock = new FileLock(new File(arguments[0]));
        if (!lock.tryLock()) {
            System.out.println("refused");
            return;
        }
        System.out.println("held " + ProcessHandle.current().pid());
        while (System.in.read() >= 0) {
            continue;
        }
        lock.unlock();
    }
}
