import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.fault.FaultHandler;

/**
 * What the real loader of a broker makes of metadata logs. Each line of standard input: a snapshot's file, or nothing,
 * then the log's files, separated by tabs. Each answer is the image in sorted lines, ended by one that is a dot.
 */
public final class MetadataImages {
    private MetadataImage image = MetadataImage.EMPTY;

    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] files = line.split("\t", -1);
            MetadataImages images = new MetadataImages();
            long start = files[0].isEmpty() ? 0 : images.snapshot(new File(files[0]));
            images.log(start, Arrays.asList(files).subList(1, files.length));
            images.lines().forEach(System.out::println);
            System.out.println(".");
        }
    }

    private long snapshot(File file) throws Exception {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        try (FileRecords records = FileRecords.open(file)) {
            for (FileChannelRecordBatch batch : records.batches()) {
                for (ApiMessageAndVersion message : messages(batch)) {
                    delta.replay(message.message());
                }
            }
        }
        delta.finishSnapshot();
        long end = Long.parseLong(file.getName().substring(0, 20));
        image = delta.apply(new MetadataProvenance(end - 1, 1, 0, true));
        return end;
    }

    private void log(long start, List<String> files) throws Exception {
        MetadataBatchLoader loader = loader();
        loader.resetToImage(image);
        for (String file : files) {
            try (FileRecords records = FileRecords.open(new File(file))) {
                for (FileChannelRecordBatch batch : records.batches()) {
                    if (batch.lastOffset() >= start && !batch.isControlBatch()) {
                        loader.loadBatch(Batch.data(batch.baseOffset(), batch.partitionLeaderEpoch(), batch.maxTimestamp(),
                            batch.sizeInBytes(), messages(batch)), LeaderAndEpoch.UNKNOWN);
                        loader.maybeFlushBatches(LeaderAndEpoch.UNKNOWN, true);
                    }
                }
            }
        }
    }

    /** A loader that keeps each image. Since Kafka 4.3 it asks which settings this version knows; here it takes all. */
    private MetadataBatchLoader loader() throws Exception {
        FaultHandler faults = (message, cause) -> {
            throw new IllegalStateException(message, cause);
        };
        MetadataBatchLoader.MetadataUpdater updater = (delta, newImage, manifest) -> image = newImage;
        List<Object> arguments = new ArrayList<>(List.of(new LogContext(), Time.SYSTEM, faults, updater));
        Constructor<?> constructor = MetadataBatchLoader.class.getConstructors()[0];
        if (constructor.getParameterCount() > arguments.size()) {
            arguments.add(Class.forName("org.apache.kafka.metadata.SupportedConfigChecker").getField("TRUE").get(null));
        }
        return (MetadataBatchLoader) constructor.newInstance(arguments.toArray());
    }

    private static List<ApiMessageAndVersion> messages(FileChannelRecordBatch batch) {
        List<ApiMessageAndVersion> found = new ArrayList<>();
        if (!batch.isControlBatch()) {
            for (Record record : batch) {
                found.add(MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(record.value()), record.valueSize()));
            }
        }
        return found;
    }

    private TreeSet<String> lines() {
        TreeSet<String> lines = new TreeSet<>();
        image.topics().topicsByName().forEach((name, topic) -> {
            lines.add(String.join(" ", "topic", name, topic.id().toString()));
            topic.partitions().forEach((number, p) -> lines.add(partition(name, number, p)));
        });
        image.configs().resourceData().forEach((resource, configs) -> configs.data().forEach((name, value) ->
            lines.add("config " + resource.type().id() + " " + resource.name() + " " + name + "=" + value)));
        for (Map.Entry<String, Short> feature : image.features().finalizedVersions().entrySet()) {
            lines.add("feature " + feature.getKey() + " " + feature.getValue());
        }
        image.features().metadataVersion().ifPresent(v -> lines.add("feature metadata.version " + v.featureLevel()));
        image.cluster().brokers().values().forEach(broker -> lines.add(broker(broker)));
        return lines;
    }

    private static String partition(String name, int number, PartitionRegistration p) {
        return "partition " + name + " " + number + " replicas " + numbers(p.replicas) + " isr " + numbers(p.isr)
            + " leader " + p.leader + " " + p.leaderEpoch + " " + p.partitionEpoch + " in " + uuids(Arrays.asList(p.directories))
            + " adding " + numbers(p.addingReplicas) + " removing " + numbers(p.removingReplicas)
            + " recovering " + (p.leaderRecoveryState.value() == 1);
    }

    private static String broker(BrokerRegistration broker) {
        return "broker " + broker.id() + " " + broker.epoch() + " " + broker.incarnationId() + " fenced " + broker.fenced()
            + " stopping " + broker.inControlledShutdown() + " in " + uuids(broker.directories())
            + " rack " + Optional.of(broker.rack()).get().orElse("-");
    }

    private static String numbers(int[] numbers) {
        return Arrays.toString(numbers).replace(" ", "");
    }

    private static String uuids(List<Uuid> uuids) {
        return uuids.toString().replace(" ", "");
    }
}
