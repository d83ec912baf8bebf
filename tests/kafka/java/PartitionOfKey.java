import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

/**
 * The partitions that Kafka's own producer chooses. Lines on standard input: the key in hexadecimal, a tab, how many
 * partitions there are; answered with the hash (as Java has it, with a sign), a tab and the partition.
 */
public class PartitionOfKey {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            byte[] key = HexFormat.of().parseHex(words[0]);
            int partition = BuiltInPartitioner.partitionForKey(key, Integer.parseInt(words[1]));
            answers.append(Utils.murmur2(key)).append('\t').append(partition).append('\n');
        }
        System.out.print(answers);
    }
}
