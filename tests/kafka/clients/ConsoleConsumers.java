import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import org.apache.kafka.tools.consumer.ConsoleConsumer;
import org.apache.kafka.tools.consumer.ConsoleConsumerOptions;

/** Runs kafka-console-consumer once for each line of a file: words with tabs between them, the first is the output file. */
public class ConsoleConsumers {
    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Path.of(args[0]), StandardCharsets.UTF_8)) {
            String[] words = line.split("\t");
            try (PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(words[0])))) {
                System.setOut(out);
                ConsoleConsumer.run(new ConsoleConsumerOptions(java.util.Arrays.copyOfRange(words, 1, words.length)));
            }
        }
    }
}
