import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;

/**
 * Members of groups, and the tools that describe them, in one JVM. Argument: the broker. Each line, words separated by
 * tabs:
 *   member PROTOCOL GROUP TOPIC[,TOPIC] NAME=VALUE...   a consumer of the protocol classic or consumer joins and stays;
 *                              commit=N: the offset that it commits in each partition, instance=: a static member
 *   match GROUP EXPRESSION COUNT FILE   a consumer of topics that the server matches (SubscriptionPattern) reads COUNT
 *                              records, and leaves; a line of the file has topic, partition and offset of a record
 *   leave GROUP                the members of the group leave
 *   share GROUP TOPIC COUNT    a share consumer joins, acknowledges COUNT records, and stays
 *   streams GROUP TOPIC DIRECTORY   a member of Kafka Streams with the protocol streams joins, reads the topic to its end, and stays
 *   set GROUP TOPIC PARTITION OFFSET    commit without a member, as kafka-consumer-groups --reset-offsets does
 *   forget GROUP TOPIC PARTITION        delete an offset, as kafka-consumer-groups --delete-offsets does
 *   pending ID GROUP TOPIC PARTITION OFFSET END     commit an offset in a transaction: END commit, abort or open
 *   tool FILE CLASS WORD...    the output of a tool's main method on that broker, into a file
 * Answers "ok", or "failed" and why. When the input ends, the JVM halts: members do not leave.
 */
public final class GroupClients {
    private static final long MOST_MS = 240_000;
    private final String address;
    private final Map<String, List<KafkaConsumer<byte[], byte[]>>> members = new HashMap<>();
    private final List<Object> held = new ArrayList<>();

    private GroupClients(String address) {
        this.address = address;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        GroupClients clients = new GroupClients(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                clients.run(line.split("\t"));
                answers.println("ok");
            } catch (Throwable error) {
                answers.println("failed " + line.replace('\t', ' ') + ": " + error.toString().replace('\n', ' '));
            }
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private void run(String[] words) throws Exception {
        switch (words[0]) {
            case "member" -> member(words);
            case "match" -> match(words[1], words[2], Integer.parseInt(words[3]), Path.of(words[4]));
            case "leave" -> members.remove(words[1]).forEach(KafkaConsumer::close);
            case "share" -> share(words[1], words[2], Integer.parseInt(words[3]));
            case "streams" -> streams(words[1], words[2], words[3]);
            case "set" -> set(words[1], new TopicPartition(words[2], Integer.parseInt(words[3])), Long.parseLong(words[4]));
            case "forget" -> forget(words[1], new TopicPartition(words[2], Integer.parseInt(words[3])));
            case "pending" -> pending(words);
            case "tool" -> tool(words);
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private Map<String, Object> config(String group) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", address);
        config.put("group.id", group);
        config.put("max.poll.interval.ms", 3_600_000);  // members stay while others are made, however long that takes
        config.put("key.deserializer", ByteArrayDeserializer.class);
        config.put("value.deserializer", ByteArrayDeserializer.class);
        return config;
    }

    private void streams(String group, String topic, String directory) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", address);
        config.put("application.id", group);
        config.put("client.id", group + "-client-" + held.size());
        config.put("group.protocol", "streams");
        config.put("state.dir", directory);
        config.put("commit.interval.ms", 100);
        config.put("auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(topic, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray())).foreach((key, value) -> { });
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.start();
        held.add(streams);
        long deadline = System.currentTimeMillis() + MOST_MS;
        long settled = 0;
        while (settled < 15 && System.currentTimeMillis() < deadline) {  // running with tasks for three seconds
            Thread.sleep(200);
            boolean works = streams.state() == KafkaStreams.State.RUNNING
                && streams.metadataForLocalThreads().stream().anyMatch(one -> !one.activeTasks().isEmpty());
            settled = works ? settled + 1 : 0;
        }
        if (settled < 15) {
            throw new IllegalStateException("no tasks: " + group + " is " + streams.state());
        }
    }

    private void member(String[] words) {
        Map<String, Object> config = config(words[2]);
        config.put("group.protocol", words[1]);
        config.put("enable.auto.commit", false);
        config.put("auto.offset.reset", "earliest");
        config.put("client.id", words[2] + "-client");
        long commit = 0;
        for (String option : Arrays.copyOfRange(words, 4, words.length)) {
            String value = option.substring(option.indexOf('=') + 1);
            if (option.startsWith("commit=")) {
                commit = Long.parseLong(value);
            } else {
                config.put("group.instance.id", value);
            }
        }
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config);
        List<KafkaConsumer<byte[], byte[]>> others = members.computeIfAbsent(words[2], one -> new ArrayList<>());
        consumer.subscribe(List.of(words[3].split(",")));
        others.add(consumer);
        long deadline = System.currentTimeMillis() + MOST_MS;
        long settled = 0;
        while (settled < 5 && System.currentTimeMillis() < deadline) {  // until each has partitions for five turns
            others.forEach(one -> one.poll(Duration.ofMillis(200)));
            settled = others.stream().allMatch(one -> !one.assignment().isEmpty()) ? settled + 1 : 0;
        }
        if (settled < 5) {
            throw new IllegalStateException("not assigned: " + words[2]);
        }
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (TopicPartition one : consumer.assignment()) {
            offsets.put(one, new OffsetAndMetadata(commit + one.partition()));
        }
        consumer.commitSync(offsets);
    }

    private void match(String group, String expression, int count, Path file) throws Exception {
        Map<String, Object> config = config(group);
        config.put("group.protocol", "consumer");
        config.put("auto.offset.reset", "earliest");
        List<String> lines = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            consumer.subscribe(new SubscriptionPattern(expression));
            long deadline = System.currentTimeMillis() + MOST_MS;
            while (lines.size() < count && System.currentTimeMillis() < deadline) {
                consumer.poll(Duration.ofMillis(500))
                    .forEach(one -> lines.add(one.topic() + " " + one.partition() + " " + one.offset()));
            }
        }
        Files.write(file, lines);
    }

    private void share(String group, String topic, int count) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            ConfigEntry entry = new ConfigEntry("share.auto.offset.reset", "earliest");
            Collection<AlterConfigOp> change = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), change)).all().get();
        }
        Map<String, Object> config = config(group);
        config.put("max.poll.records", 10);
        KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(config);
        held.add(consumer);
        consumer.subscribe(List.of(topic));
        long deadline = System.currentTimeMillis() + MOST_MS;
        for (int seen = 0; seen < count; ) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("only " + seen + " records of " + topic);
            }
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
            seen += records.count();
            consumer.commitSync();
        }
    }

    private void set(String group, TopicPartition partition, long offset) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(offset))).all().get();
        }
    }

    private void forget(String group, TopicPartition partition) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            admin.deleteConsumerGroupOffsets(group, java.util.Set.of(partition)).all().get();
        }
    }

    private void pending(String[] words) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", address, "transactional.id", words[1]));
        config.put("transaction.timeout.ms", "900000");
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        producer.beginTransaction();
        TopicPartition partition = new TopicPartition(words[3], Integer.parseInt(words[4]));
        OffsetAndMetadata offset = new OffsetAndMetadata(Long.parseLong(words[5]));
        producer.sendOffsetsToTransaction(Map.of(partition, offset), new ConsumerGroupMetadata(words[2]));
        switch (words[6]) {
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> held.add(producer);
        }
    }

    /** A tool has ended its process. */
    private static final class Ended extends RuntimeException {
        private final int code;

        private Ended(int code) {
            super("exit code " + code);
            this.code = code;
        }
    }

    private void tool(String[] words) throws Exception {
        PrintStream out = System.out;
        PrintStream err = System.err;
        try (PrintStream file = new PrintStream(words[1], StandardCharsets.UTF_8)) {
            System.setOut(file);
            System.setErr(file);
            List<String> arguments = new ArrayList<>(List.of("--bootstrap-server", address));
            arguments.addAll(List.of(words).subList(3, words.length));
            Object[] call = {arguments.toArray(new String[0])};
            // TopicCommand takes the exception of its own exit for a failure, and exits again: the first code counts.
            List<Integer> codes = new ArrayList<>();
            Exit.setExitProcedure((code, message) -> {
                codes.add(code);
                throw new Ended(codes.get(0));
            });
            Class.forName(words[2]).getMethod("main", String[].class).invoke(null, call);
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Ended ended) || ended.code != 0) {
                throw error;
            }
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
    }
}
