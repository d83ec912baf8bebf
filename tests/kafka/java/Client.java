import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A client of one broker. Argument: its address. Each line of standard input, words separated by tabs:
 *   create TOPIC NAME=VALUE...       a topic of one partition, or partitions=, with these settings
 *   alter TOPIC NAME=VALUE...        give it these settings too
 *   delete-records TOPIC OFFSET      let the log of its partition 0 start there
 *   produce TOPIC NAME=VALUE...      count=, per= (records a batch), seed=, codec=, idempotent=true, from= (the first
 *                                    timestamp), step= (ms to the next), transaction=ID
 *                                    end=commit|abort|open (several with commas: a transaction each), partition=, nulls=true: some keys are null or empty
 *   consume FOLDER ISOLATION TOPIC...   all records, into FOLDER/TOPIC.ISOLATION: offset, timestamp, key, value and
 *                                    headers, in hex
 *   consumed-group TOPIC GROUP       commit the end of the topic for a group
 * Answers "ok", or "failed" and why, a line each. What is random comes from the seed. When the input ends, the JVM
 * halts: open transactions stay open.
 */
public final class Client {
    private static final long MOST_MS = 180_000;
    private static final Set<TransactionState> ENDING =
        Set.of(TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT);
    private static final HexFormat HEX = HexFormat.of();
    private final String address;
    private final List<KafkaProducer<byte[], byte[]>> open = new ArrayList<>();

    private Client(String address) {
        this.address = address;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);  // Kafka's clients log there, such as an error that they try again after
        Client client = new Client(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                client.run(line.split("\t"));
                answers.println("ok");
            } catch (Exception error) {
                answers.println("failed " + line.replace('\t', ' ') + ": " + error.toString().replace('\n', ' '));
            }
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private void run(String[] words) throws Exception {
        switch (words[0]) {
            case "create" -> create(words[1], options(words, 2));
            case "alter" -> alter(words[1], options(words, 2));
            case "delete" -> delete(words[1]);
            case "delete-records" -> deleteRecords(words[1], Long.parseLong(words[2]));
            case "produce" -> produce(words[1], options(words, 2));
            case "consume" -> consume(Path.of(words[1]), words[2], List.of(words).subList(3, words.length));
            case "consumed-group" -> commit(words[1], words[2]);
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static Map<String, String> options(String[] words, int from) {
        Map<String, String> options = new HashMap<>();
        for (String word : Arrays.copyOfRange(words, from, words.length)) {
            options.put(word.substring(0, word.indexOf('=')), word.substring(word.indexOf('=') + 1));
        }
        return options;
    }

    private void create(String topic, Map<String, String> settings) throws Exception {
        String partitions = settings.remove("partitions");
        int count = partitions == null ? 1 : Integer.parseInt(partitions);
        String replicas = settings.remove("replicas");
        short factor = replicas == null ? 1 : Short.parseShort(replicas);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            admin.createTopics(List.of(new NewTopic(topic, count, factor).configs(settings))).all().get();
            awaitLeaders(admin, topic, count);
        }
    }

    private void delete(String topic) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            admin.deleteTopics(List.of(topic)).all().get();
        }
    }

    /** A new topic is the controller's at first: its leader answers when it has the directories. */
    private static void awaitLeaders(Admin admin, String topic, int count) throws Exception {
        Map<TopicPartition, OffsetSpec> starts = new HashMap<>();
        for (int number = 0; number < count; number++) {
            starts.put(new TopicPartition(topic, number), OffsetSpec.earliest());
        }
        long deadline = System.currentTimeMillis() + MOST_MS;
        while (true) {
            try {
                admin.listOffsets(starts).all().get();
                return;
            } catch (ExecutionException error) {
                if (!(error.getCause() instanceof RetriableException) || System.currentTimeMillis() > deadline) {
                    throw error;
                }
                Thread.sleep(20);
            }
        }
    }

    private void alter(String topic, Map<String, String> settings) throws Exception {
        List<AlterConfigOp> changes = settings.entrySet().stream()
            .map(one -> new AlterConfigOp(new ConfigEntry(one.getKey(), one.getValue()), AlterConfigOp.OpType.SET))
            .toList();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
        }
    }

    private void deleteRecords(String topic, long offset) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            TopicPartition partition = new TopicPartition(topic, 0);
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(offset))).all().get();
        }
    }

    // -- producing

    private void produce(String topic, Map<String, String> options) throws Exception {
        String transaction = options.get("transaction");
        KafkaProducer<byte[], byte[]> producer = producer(options, transaction);
        if (transaction != null) {
            producer.initTransactions();
        } else {
            send(producer, topic, options);
        }
        String[] ends = transaction == null ? new String[0] : options.get("end").split(",");
        for (String end : ends) {
            producer.beginTransaction();
            send(producer, topic, options);
            if (end.equals("open")) {
                open.add(producer);
                return;
            }
            if (end.equals("commit")) {
                producer.commitTransaction();
            } else if (end.equals("abort")) {
                producer.abortTransaction();
            }
        }
        producer.close();
        if (transaction != null) {
            awaitMarkers(transaction);
        }
    }

    /** The coordinator answers the end of a transaction before its markers are in the logs. */
    private void awaitMarkers(String transaction) throws Exception {
        long deadline = System.currentTimeMillis() + MOST_MS;
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            while (ENDING.contains(
                    admin.describeTransactions(List.of(transaction)).description(transaction).get().state())) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("no markers of " + transaction);
                }
                Thread.sleep(20);
            }
        }
    }

    private KafkaProducer<byte[], byte[]> producer(Map<String, String> options, String transaction) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", address);
        config.put("compression.type", options.getOrDefault("codec", "none"));
        config.put("linger.ms", "60000");
        config.put("batch.size", "1000000");
        config.put("acks", "all");
        // A producer without a sequence that asks once more after a timeout has its records in the log twice.
        config.put("request.timeout.ms", "120000");
        config.put("delivery.timeout.ms", "300000");
        config.put("max.block.ms", "180000");
        config.put("enable.idempotence", transaction != null || options.containsKey("idempotent"));
        if (transaction != null) {
            config.put("transactional.id", transaction);
            config.put("transaction.timeout.ms", "900000");
        }
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, Map<String, String> options)
            throws Exception {
        int count = Integer.parseInt(options.get("count"));
        int per = Integer.parseInt(options.get("per"));
        Random chance = new Random(Long.parseLong(options.get("seed")));
        long from = Long.parseLong(options.getOrDefault("from", "1700000000000"));
        long step = Long.parseLong(options.getOrDefault("step", "1000"));
        int partition = Integer.parseInt(options.getOrDefault("partition", "0"));
        boolean nulls = options.containsKey("nulls");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int at = 0; at < count; at++) {
            sent.add(producer.send(record(chance, topic, partition, from + at * step, nulls)));
            if (at % per == per - 1) {
                producer.flush();
            }
        }
        producer.flush();
        for (Future<RecordMetadata> one : sent) {
            one.get();
        }
    }

    private static ProducerRecord<byte[], byte[]> record(
            Random chance, String topic, int partition, long timestamp, boolean nulls) {
        byte[] key = ("key-" + chance.nextInt(40)).getBytes(StandardCharsets.UTF_8);
        if (nulls && chance.nextInt(4) == 0) {
            key = chance.nextBoolean() ? null : new byte[0];
        }
        byte[] value = null;
        if (chance.nextInt(8) > 0) {
            value = new byte[chance.nextInt(120)];
            chance.nextBytes(value);
            Arrays.fill(value, value.length / 2, value.length, (byte) 'x');
        }
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, partition, timestamp, key, value);
        for (int header = chance.nextInt(3); header > 0; header--) {
            record.headers().add("h" + chance.nextInt(2), chance.nextBoolean() ? null : new byte[] {(byte) header, -1});
        }
        return record;
    }

    // -- consuming

    private KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(more);
        config.put("bootstrap.servers", address);
        config.put("enable.auto.commit", false);
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private void consume(Path folder, String isolation, List<String> topics) throws Exception {
        List<TopicPartition> partitions = topics.stream().map(topic -> new TopicPartition(topic, 0)).toList();
        Map<TopicPartition, StringBuilder> lines = new HashMap<>();
        partitions.forEach(partition -> lines.put(partition, new StringBuilder()));
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("isolation.level", isolation))) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long deadline = System.currentTimeMillis() + MOST_MS;
            while (partitions.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    lines.get(new TopicPartition(record.topic(), 0)).append(line(record));
                }
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("stuck before " + ends);
                }
            }
        }
        for (TopicPartition partition : partitions) {
            Files.writeString(folder.resolve(partition.topic() + "." + isolation), lines.get(partition));
        }
    }

    private void commit(String topic, String group) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("group.id", group))) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToEnd(List.of(partition));
            consumer.position(partition);
            consumer.commitSync();
        }
    }

    private static String line(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder headers = new StringBuilder();
        for (Header header : record.headers()) {
            headers.append(header.key()).append('=').append(hex(header.value())).append(' ');
        }
        return record.offset() + "\t" + record.timestamp() + "\t" + hex(record.key()) + "\t" + hex(record.value())
            + "\t" + headers.toString().strip() + "\n";
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "-" : HEX.formatHex(bytes);
    }
}
