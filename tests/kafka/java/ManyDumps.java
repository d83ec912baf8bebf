import java.io.ByteArrayOutputStream;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs many command lines of the real kafka-dump-log in one JVM, whose start costs more than a dump.
 * Each line of standard input: output file, then the arguments, separated by tabs. Writes stdout to FILE and
 * stderr to FILE.err, and prints "FILE tab exit code".
 */
public final class ManyDumps {
    private static final class Stop extends RuntimeException {
        private final int code;

        Stop(int code) {
            super(null, null, false, false);
            this.code = code;
        }
    }

    /** A stream whose target can be changed while others hold it. */
    private static final class Target extends OutputStream {
        private ByteArrayOutputStream buffer = new ByteArrayOutputStream();

        @Override
        public void write(int data) {
            buffer.write(data);
        }

        @Override
        public void write(byte[] data, int from, int size) {
            buffer.write(data, from, size);
        }

        byte[] take() {
            byte[] taken = buffer.toByteArray();
            buffer = new ByteArrayOutputStream();
            return taken;
        }
    }

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        Target out = new Target();
        Target err = new Target();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> {
            throw new Stop(code);
        });
        Method tool = tool().getMethod("main", String[].class);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            int code = run(tool, Arrays.copyOfRange(words, 1, words.length));
            System.out.flush();
            System.err.flush();
            save(words[0], out.take(), err.take());
            answers.println(words[0] + "\t" + code);
        }
        answers.flush();
    }

    /** The tool, which has moved with Kafka 4.3. */
    private static Class<?> tool() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.tools.DumpLogSegments");
        } catch (ClassNotFoundException before) {
            return Class.forName("kafka.tools.DumpLogSegments");
        }
    }

    private static int run(Method tool, String[] arguments) throws IllegalAccessException {
        try {
            tool.invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException thrown) {
            if (thrown.getCause() instanceof Stop) {
                return ((Stop) thrown.getCause()).code;
            }
            System.err.println(thrown.getCause());
            return 1;
        }
    }

    private static void save(String name, byte[] out, byte[] err) throws IOException {
        Files.write(Path.of(name), out);
        Files.write(Path.of(name + ".err"), err);
    }
}
