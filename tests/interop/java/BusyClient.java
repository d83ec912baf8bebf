import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Keeps one broker busy until standard input ends. Arguments: its address, messages per second of each producer.
 * Topics: "plain" (deleted by size, and by delete-records every two seconds), "compacted" (few keys, an idempotent
 * producer), "txn" (transactions of two producers, every third is aborted), and "passing", which is created, filled and
 * deleted in a loop. Prints "ready" once all producers send, and at the end one line: the messages that were sent.
 */
public final class BusyClient {
    private static final AtomicLong SENT = new AtomicLong();
    private final String address;
    private final int perSecond;

    private BusyClient(String address, int perSecond) {
        this.address = address;
        this.perSecond = perSecond;
    }

    public static void main(String[] arguments) throws Exception {
        BusyClient client = new BusyClient(arguments[0], Integer.parseInt(arguments[1]));
        client.create("plain", Map.of("cleanup.policy", "delete", "retention.bytes", "400000", "retention.ms", "20000",
            "internal.segment.bytes", "30000", "index.interval.bytes", "100", "file.delete.delay.ms", "500"));
        client.create("compacted", Map.of("cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.01",
            "internal.segment.bytes", "20000", "index.interval.bytes", "100", "file.delete.delay.ms", "500",
            "delete.retention.ms", "1000"));
        client.create("txn", Map.of("cleanup.policy", "delete", "retention.bytes", "400000",
            "internal.segment.bytes", "30000", "index.interval.bytes", "100", "file.delete.delay.ms", "500"));
        start(client::plain);
        start(client::compacted);
        start(() -> client.transactions(1));
        start(() -> client.transactions(2));
        start(client::deleteRecords);
        start(client::passing);
        while (SENT.get() < 4L * client.perSecond) {
            Thread.sleep(50);
        }
        System.out.println("ready");
        while (System.in.read() >= 0) {
            Thread.sleep(10);
        }
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

    private void create(String topic, Map<String, String> settings) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1).configs(settings))).all().get();
        }
    }

    private KafkaProducer<byte[], byte[]> producer(Map<String, Object> settings) {
        Map<String, Object> config = new java.util.HashMap<>(settings);
        config.put("bootstrap.servers", address);
        config.put("linger.ms", "0");
        config.put("acks", "all");
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private void plain() throws Exception {
        loop("plain", producer(Map.of("enable.idempotence", false)), 1 << 30, "none");
    }

    private void compacted() throws Exception {
        loop("compacted", producer(Map.of("enable.idempotence", true)), 40, "lz4");
    }

    private void loop(String topic, KafkaProducer<byte[], byte[]> producer, int keys, String codec) throws Exception {
        Random random = new Random(1);
        for (long count = 0; ; count++) {
            byte[] key = Integer.toString(random.nextInt(keys)).getBytes(StandardCharsets.UTF_8);
            producer.send(new ProducerRecord<>(topic, key, new byte[random.nextInt(120)]));
            SENT.incrementAndGet();
            Thread.sleep(1000 / perSecond);
        }
    }

    private void transactions(int number) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producer(Map.of("transactional.id", "busy-" + number));
        producer.initTransactions();
        Random random = new Random(number);
        for (long count = 0; ; count++) {
            producer.beginTransaction();
            for (int record = 0; record <= random.nextInt(6); record++) {
                producer.send(new ProducerRecord<>("txn", new byte[4], new byte[random.nextInt(120)]));
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
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
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

    private void passing() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            for (int number = 0; ; number++) {
                String topic = "passing" + number;
                create(topic, Map.of("file.delete.delay.ms", "1000"));
                try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
                    for (int record = 0; record < 20; record++) {
                        producer.send(new ProducerRecord<>(topic, new byte[4], new byte[50])).get();
                    }
                }
                admin.deleteTopics(List.of(topic)).all().get();
                Thread.sleep(1000);
            }
        }
    }
}
