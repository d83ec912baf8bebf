import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Keeps brokers busy until standard input ends. Arguments: the addresses of the first broker and of the
 * controller (a broker that does not answer then holds up no topic), messages per second of each producer, brokers.
 * Topics: "plain" (deleted by size, by delete-records every two seconds, with a segment size that changes), "compacted"
 * (few keys, tombstones, an idempotent producer), "txn" and "txncompacted" (transactions of two producers, every third
 * is aborted), "passing", which is created, filled and deleted in a loop under new names, "again", under the same
 * name, and "wide" of 72 partitions: so many small logs are verified in forks. With two brokers also "moved" and "movedcompacted" on both, with acknowledgements of the leader alone.
 * Prints "ready" once all producers send, and at the end one line: the messages that were sent.
 * A line "lead BROKER" on standard input makes that broker the leader of the moved topics; the answer is "asked".
 */
public final class BusyClient {
    private static final AtomicLong SENT = new AtomicLong();
    private static final int WIDE = 72;
    private static final Map<Integer, List<Integer>> MOVED = Map.of(0, List.of(1, 2));
    private final String address;
    private final String controller;
    private final int perSecond;
    private final int brokers;

    private BusyClient(String address, String controller, int perSecond, int brokers) {
        this.address = address;
        this.controller = controller;
        this.perSecond = perSecond;
        this.brokers = brokers;
    }

    public static void main(String[] arguments) throws Exception {
        BusyClient client = new BusyClient(
            arguments[0], arguments[1], Integer.parseInt(arguments[2]), Integer.parseInt(arguments[3]));
        client.create("plain", Map.of("cleanup.policy", "delete", "retention.bytes", "400000", "retention.ms", "20000",
            "internal.segment.bytes", "30000", "index.interval.bytes", "100", "file.delete.delay.ms", "500"));
        client.create("compacted", Map.of("cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.01",
            "internal.segment.bytes", "20000", "index.interval.bytes", "100", "file.delete.delay.ms", "500",
            "delete.retention.ms", "1000"));
        client.create("txn", Map.of("cleanup.policy", "delete", "retention.bytes", "400000",
            "internal.segment.bytes", "30000", "index.interval.bytes", "100", "file.delete.delay.ms", "500"));
        client.create("txncompacted", Map.of("cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.01",
            "internal.segment.bytes", "20000", "index.interval.bytes", "100", "file.delete.delay.ms", "500",
            "delete.retention.ms", "1000"));
        client.create("wide", Map.of("cleanup.policy", "delete", "retention.bytes", "30000",
            "internal.segment.bytes", "8000", "index.interval.bytes", "100", "file.delete.delay.ms", "500"),
            IntStream.range(0, WIDE).boxed().collect(Collectors.toMap(number -> number, number -> List.of(1))));
        start(client::plain);
        start(client::compacted);
        start(() -> client.loop("wide", client.producer(Map.of("enable.idempotence", true)), 1 << 30, 0));
        start(() -> client.transactions(1));
        start(() -> client.transactions(2));
        start(client::deleteRecords);
        start(client::passing);
        start(client::again);
        start(client::segmentSizes);
        if (client.brokers > 1) {
            client.startMoved();
        }
        while (SENT.get() < 5L * client.perSecond) {
            Thread.sleep(50);
        }
        System.out.println("ready");
        client.answer(new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)));
        System.out.println(SENT.get());
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception error) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private void startMoved() throws Exception {
        create("moved", Map.of("cleanup.policy", "delete", "retention.bytes", "400000",
            "internal.segment.bytes", "30000", "index.interval.bytes", "100", "file.delete.delay.ms", "500"), MOVED);
        create("movedcompacted", Map.of("cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.01",
            "internal.segment.bytes", "20000", "index.interval.bytes", "100", "file.delete.delay.ms", "500",
            "delete.retention.ms", "1000"), MOVED);
        start(() -> loop("moved", leaderOnly(), 1 << 30, 0));
        start(() -> loop("movedcompacted", leaderOnly(), 200, 10));
    }

    private KafkaProducer<byte[], byte[]> leaderOnly() {
        return producer(Map.of("enable.idempotence", false, "acks", "1"));
    }

    private void answer(BufferedReader lines) throws Exception {
        try (Admin admin = brokerAdmin("1000")) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                int leader = Integer.parseInt(line.split(" ")[1]);
                Set<TopicPartition> moved =
                    Set.of(new TopicPartition("moved", 0), new TopicPartition("movedcompacted", 0));
                Map<TopicPartition, Optional<NewPartitionReassignment>> order = new HashMap<>();
                for (TopicPartition partition : moved) {
                    order.put(partition, Optional.of(new NewPartitionReassignment(List.of(leader, 3 - leader))));
                }
                admin.alterPartitionReassignments(order).all().get();
                admin.electLeaders(ElectionType.PREFERRED, moved).partitions().get();
                System.out.println("asked");
            }
        }
    }

    private Admin brokerAdmin() {
        return brokerAdmin("5000");
    }

    private Admin brokerAdmin(String timeoutMs) {
        // A broker that is stopped meanwhile is asked again, or another is.
        return Admin.create(Map.of("bootstrap.servers", address, "request.timeout.ms", timeoutMs,
            "default.api.timeout.ms", "600000"));
    }

    private Admin controllerAdmin() {
        return Admin.create(Map.of("bootstrap.controllers", controller, "default.api.timeout.ms", "600000"));
    }

    private void create(String topic, Map<String, String> settings) throws Exception {
        create(topic, settings, Map.of(0, List.of(1)));
    }

    private void create(String topic, Map<String, String> settings, Map<Integer, List<Integer>> replicas)
        throws Exception {
        try (Admin admin = brokerAdmin()) {
            admin.createTopics(List.of(new NewTopic(topic, replicas).configs(settings))).all().get();
        }
    }

    private KafkaProducer<byte[], byte[]> producer(Map<String, Object> settings) {
        Map<String, Object> config = new java.util.HashMap<>(settings);
        config.put("bootstrap.servers", address);
        config.put("linger.ms", "0");
        config.put("max.block.ms", "600000");
        config.put("delivery.timeout.ms", "600000");
        config.putIfAbsent("acks", "all");
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private void plain() throws Exception {
        loop("plain", producer(Map.of("enable.idempotence", false)), 1 << 30, 0);
    }

    private void compacted() throws Exception {
        loop("compacted", producer(Map.of("enable.idempotence", true)), 40, 10);
    }

    private void loop(String topic, KafkaProducer<byte[], byte[]> producer, int keys, int tombstonesPerHundred)
        throws Exception {
        Random random = new Random(1);
        for (long count = 0; ; count++) {
            byte[] key = Integer.toString(random.nextInt(keys)).getBytes(StandardCharsets.UTF_8);
            byte[] value = random.nextInt(100) < tombstonesPerHundred ? null : new byte[random.nextInt(120)];
            producer.send(new ProducerRecord<>(topic, key, value));
            SENT.incrementAndGet();
            Thread.sleep(1000 / perSecond);
        }
    }

    private void transactions(int number) throws Exception {
        while (true) {
            try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("transactional.id", "busy-" + number))) {
                transactions(producer, new Random(number));
            } catch (KafkaException ended) {
                // On a busy host the coordinator may have ended the transaction, or forgotten the producer.
                System.err.println("a transactional producer begins anew: " + ended);
            }
        }
    }

    private void transactions(KafkaProducer<byte[], byte[]> producer, Random random) throws Exception {
        producer.initTransactions();
        for (long count = 0; ; count++) {
            producer.beginTransaction();
            for (int record = 0; record <= random.nextInt(6); record++) {
                producer.send(new ProducerRecord<>("txn", new byte[4], new byte[random.nextInt(120)]));
                byte[] key = {(byte) random.nextInt(40)};
                byte[] value = random.nextInt(10) == 0 ? null : new byte[random.nextInt(120)];
                producer.send(new ProducerRecord<>("txncompacted", key, value));
                SENT.incrementAndGet();
                Thread.sleep(1000 / perSecond);
            }
            if (count % 3 == 0) {
                producer.abortTransaction();
            } else {
                producer.commitTransaction();
            }
        }
    }

    private void deleteRecords() throws Exception {
        try (Admin admin = brokerAdmin()) {
            TopicPartition partition = new TopicPartition("plain", 0);
            for (long offset = 300; ; offset += 2L * perSecond / 3) {
                Thread.sleep(2000);
                try {
                    admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(offset))).all().get();
                } catch (java.util.concurrent.ExecutionException outOfRange) {
                    offset -= perSecond;
                }
            }
        }
    }

    private void segmentSizes() throws Exception {
        try (Admin admin = controllerAdmin()) {
            ConfigResource plain = new ConfigResource(ConfigResource.Type.TOPIC, "plain");
            for (int number = 0; ; number++) {
                Thread.sleep(3000);
                List<AlterConfigOp> changes = List.of(
                    set("internal.segment.bytes", number % 2 == 0 ? "60000" : "15000"),
                    set("segment.index.bytes", number % 3 == 0 ? "65536" : "10485760"));
                admin.incrementalAlterConfigs(Map.of(plain, changes)).all().get();
            }
        }
    }

    private static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }

    private void passing() throws Exception {
        comeAndGo("passing", true);
    }

    private void again() throws Exception {
        comeAndGo("again", false);
    }

    private void comeAndGo(String name, boolean isNumbered) throws Exception {
        try (Admin admin = brokerAdmin()) {
            for (int number = 0; ; number++) {
                String topic = name + (isNumbered ? number : "");
                createWhenGone(topic, Map.of("file.delete.delay.ms", "1000"));
                try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
                    for (int record = 0; record < 20; record++) {
                        producer.send(new ProducerRecord<>(topic, new byte[4], new byte[50])).get();
                    }
                }
                delete(admin, topic);
                Thread.sleep(1000);
            }
        }
    }

    private static void delete(Admin admin, String topic) throws Exception {
        try {
            admin.deleteTopics(List.of(topic)).all().get();
        } catch (java.util.concurrent.ExecutionException error) {
            if (!(error.getCause() instanceof UnknownTopicOrPartitionException)) {  // the second of two tries says so
                throw error;
            }
        }
    }

    private void createWhenGone(String topic, Map<String, String> settings) throws Exception {
        while (true) {
            try {
                create(topic, settings);
                return;
            } catch (java.util.concurrent.ExecutionException error) {
                if (!(error.getCause() instanceof TopicExistsException)) {
                    throw error;
                }
                Thread.sleep(100);
            }
        }
    }
}
