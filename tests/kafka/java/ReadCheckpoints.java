import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.KafkaStorageException;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

/**
 * Reads checkpoint files with the broker's own classes. Lines of standard input: offsets or epochs, a tab, the path.
 * Answers, one line each: "read", then the entries; or "offline" where the log directory failed (an IOException),
 * "runtime" where a RuntimeException came (LogManager then takes 0 for every partition of an offset checkpoint),
 * "error" where an Error came, which ends a broker; each with the class and the message.
 */
public final class ReadCheckpoints {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            System.out.println(answer(words[0], new File(words[1])).replaceAll("[\\r\\n]+", " "));
        }
    }

    private static String answer(String kind, File file) {
        LogDirFailureChannel failures = new LogDirFailureChannel(10);
        try {
            return "read\t" + (kind.equals("offsets") ? offsets(file, failures) : epochs(file, failures));
        } catch (KafkaStorageException thrown) {
            return "offline\t" + thrown.getCause();
        } catch (java.io.IOException thrown) {
            return "offline\t" + thrown;
        } catch (RuntimeException thrown) {
            return "runtime\t" + thrown;
        } catch (Error thrown) {
            return "error\t" + thrown;
        }
    }

    private static String offsets(File file, LogDirFailureChannel failures) throws java.io.IOException {
        Map<String, Long> found = new TreeMap<>();
        for (Map.Entry<TopicPartition, Long> entry : new OffsetCheckpointFile(file, failures).read().entrySet()) {
            found.put(entry.getKey().topic() + " " + entry.getKey().partition(), entry.getValue());
        }
        return found.toString();
    }

    private static String epochs(File file, LogDirFailureChannel failures) throws java.io.IOException {
        StringBuilder found = new StringBuilder();
        for (EpochEntry entry : new LeaderEpochCheckpointFile(file, failures).read()) {
            found.append(entry).append(", ");
        }
        return found.toString();
    }
}
