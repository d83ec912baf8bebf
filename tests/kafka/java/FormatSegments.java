import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.MessageFormatter;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.Utils;

/**
 * The records of a partition's segments through kafka-console-consumer's formatter, without a broker: read as a broker
 * and a consumer read them (FileRecords, CRCs checked, control records left out), printed in large blocks, where the
 * real tool flushes after each record. Arguments: the partition's directory, then the formatter's NAME=VALUE.
 */
public final class FormatSegments {
    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        Map<String, String> properties = new HashMap<>();
        for (String word : Arrays.copyOfRange(arguments, 1, arguments.length)) {
            properties.put(word.substring(0, word.indexOf('=')), word.substring(word.indexOf('=') + 1));
        }
        String name = folder.getName();
        String topic = name.substring(0, name.lastIndexOf('-'));
        int partition = Integer.parseInt(name.substring(name.lastIndexOf('-') + 1));
        File[] segments = folder.listFiles((where, file) -> file.endsWith(".log"));
        Arrays.sort(segments);
        var made = Class.forName("org.apache.kafka.tools.consumer.DefaultMessageFormatter").getDeclaredConstructor();
        made.setAccessible(true);
        try (MessageFormatter formatter = (MessageFormatter) made.newInstance();
             PrintStream out = new PrintStream(
                 new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 20), false)) {
            formatter.configure(properties);
            BufferSupplier buffers = BufferSupplier.create();
            for (File segment : segments) {
                try (FileRecords records = FileRecords.open(segment, false)) {
                    for (RecordBatch batch : records.batches()) {
                        batch.ensureValid();
                        if (batch.isControlBatch()) {
                            continue;
                        }
                        try (var iterator = batch.streamingIterator(buffers)) {
                            while (iterator.hasNext()) {
                                formatter.writeTo(consumed(topic, partition, batch, iterator.next()), out);
                            }
                        }
                    }
                }
            }
        }
    }

    private static ConsumerRecord<byte[], byte[]> consumed(String topic, int partition, RecordBatch batch, Record one) {
        int epoch = batch.partitionLeaderEpoch();
        return new ConsumerRecord<>(
            topic, partition, one.offset(), one.timestamp(), batch.timestampType(), one.keySize(), one.valueSize(),
            Utils.toNullableArray(one.key()), Utils.toNullableArray(one.value()), new RecordHeaders(one.headers()),
            epoch == RecordBatch.NO_PARTITION_LEADER_EPOCH ? Optional.empty() : Optional.of(epoch));
    }
}
