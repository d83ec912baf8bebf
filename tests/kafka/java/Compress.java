import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Packs files as the real producer does. Each line of standard input: codec, level (or "default"), magic, input,
 * output, separated by tabs; answers ok.
 */
public final class Compress {
    private Compress() {}

    public static void main(String[] ignored) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            ByteBufferOutputStream packed = new ByteBufferOutputStream(1 << 20);
            try (OutputStream out = compression(words[0], words[1]).wrapForOutput(packed, Byte.parseByte(words[2]))) {
                out.write(Files.readAllBytes(Path.of(words[3])));
            }
            ByteBuffer buffer = packed.buffer();
            buffer.flip();
            Files.write(Path.of(words[4]), Arrays.copyOf(buffer.array(), buffer.limit()));
            System.out.println("ok");
        }
    }

    private static Compression compression(String codec, String level) {
        if (level.equals("default")) {
            return Compression.of(CompressionType.forName(codec)).build();
        }
        int number = Integer.parseInt(level);
        return switch (codec) {
            case "gzip" -> Compression.gzip().level(number).build();
            case "lz4" -> Compression.lz4().level(number).build();
            default -> Compression.zstd().level(number).build();
        };
    }
}
