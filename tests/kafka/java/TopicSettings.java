import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.log.LogConfig;
import kafka.server.KafkaConfig;

/**
 * Asks the real classes for settings. Each line of standard input is a question with arguments separated by tabs
 * (texts in base64); each answer is lines, ended by one that is a dot.
 */
public final class TopicSettings {
    private static final Map<String, String> BASE = Map.of(
        "process.roles", "broker,controller", "node.id", "1", "log.dirs", "/nowhere",
        "listeners", "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names", "CONTROLLER", "controller.quorum.voters", "1@127.0.0.1:9093",
        "listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "broker.heartbeat.interval.ms", "2000");

    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t", -1);
            StringBuilder answer = new StringBuilder();
            try {
                answer(words, answer);
            } catch (Exception e) {
                answer.setLength(0);
                answer.append("error\t").append(e.toString().replaceAll("[\\t\\n]", " ")).append('\n');
            }
            System.out.print(answer.append(".\n"));
        }
        System.out.flush();
    }

    private static void answer(String[] words, StringBuilder out) throws Exception {
        switch (words[0]) {
            case "topic-table" -> topicTable(out);
            case "broker-table" -> brokerTable(words, out);
            case "parse" -> parse(LogConfig.configKeys().get(words[1]), text(words[2]), out);
            case "properties" -> load(words[1]).forEach((k, v) -> row(out, encoded((String) k), encoded((String) v)));
            case "resolve" -> resolve(words, out);
            case "checkpoint" -> checkpoint(words[1], out);
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    /** Name, type, default, whether it is internal, legal values, then the broker's names with what 3 of each is. */
    private static void topicTable(StringBuilder out) {
        new TreeMap<>(LogConfig.configKeys()).forEach((name, key) -> {
            StringBuilder names = new StringBuilder();
            for (var synonym : ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.getOrDefault(name, List.of())) {
                names.append(synonym.name()).append('=').append(synonym.converter().apply("3")).append(' ');
            }
            described(out, key, String.valueOf(key.internalConfig), names.toString().trim());
        });
    }

    private static void brokerTable(String[] words, StringBuilder out) throws ReflectiveOperationException {
        Set<?> dynamic = dynamicSettings();
        for (int at = 1; at < words.length; at++) {
            var key = AbstractKafkaConfig.CONFIG_DEF.configKeys().get(words[at]);
            described(out, key, String.valueOf(dynamic.contains(key.name)));
        }
    }

    /** The broker settings that can change while it runs, whose table has moved with Kafka 4.3. */
    private static Set<?> dynamicSettings() throws ReflectiveOperationException {
        try {
            Class<?> since43 = Class.forName("org.apache.kafka.server.config.DynamicBrokerConfig");
            return (Set<?>) since43.getField("ALL_DYNAMIC_CONFIGS").get(null);
        } catch (ClassNotFoundException before) {
            Object before43 = Class.forName("kafka.server.DynamicBrokerConfig").getMethod("AllDynamicConfigs").invoke(null);
            return scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Set<?>) before43);
        }
    }

    private static void described(StringBuilder out, ConfigDef.ConfigKey key, String... more) {
        String value = key.defaultValue == null ? "null" : ConfigDef.convertToString(key.defaultValue, key.type);
        String valid = key.validator == null ? "" : key.validator.toString();
        out.append(String.join("\t", key.name, key.type.toString(), value, valid)).append('\t');
        row(out, more);
    }

    private static void parse(ConfigDef.ConfigKey key, String text, StringBuilder out) {
        Object value = ConfigDef.parseType(key.name, text, key.type);
        if (key.validator != null) {
            key.validator.ensureValid(key.name, value);
        }
        row(out, encoded(ConfigDef.convertToString(value, key.type)));
    }

    /** Arguments: files with the static, the dynamic default, the dynamic and the topic's settings. */
    private static void resolve(String[] words, StringBuilder out) throws Exception {
        Properties properties = load(words[1]);
        BASE.forEach(properties::putIfAbsent);
        KafkaConfig config = KafkaConfig.fromProps(properties, false);
        config.dynamicConfig().initialize(scala.Option.empty());
        config.dynamicConfig().updateDefaultConfig(load(words[2]), false);
        config.dynamicConfig().updateBrokerConfig(1, load(words[3]), false);
        KafkaConfig current = config.dynamicConfig().currentKafkaConfig();
        LogConfig found = LogConfig.fromProps(current.extractLogConfigMap(), load(words[4]));
        new TreeMap<>(LogConfig.configKeys()).forEach((name, key) -> {
            Object value = found.values().get(name);
            row(out, name, value == null ? "" : encoded(ConfigDef.convertToString(value, key.type)));
        });
        row(out, "segmentSize", String.valueOf(found.segmentSize()));
        row(out, "maxSegmentMs", String.valueOf(found.maxSegmentMs()));
        row(out, "localRetentionMs", String.valueOf(found.localRetentionMs()));
        row(out, "producer.id.expiration.ms", String.valueOf(current.get("producer.id.expiration.ms")));
        row(out, "log.cleaner.threads", String.valueOf(current.get("log.cleaner.threads")));
    }

    private static void checkpoint(String path, StringBuilder out) throws Exception {
        OffsetCheckpointFile file = new OffsetCheckpointFile(Path.of(path).toFile(), null);
        for (Map.Entry<TopicPartition, Long> entry : file.read().entrySet()) {
            row(out, encoded(entry.getKey().topic()), entry.getKey().partition() + "", entry.getValue() + "");
        }
    }

    private static Properties load(String path) throws Exception {
        Properties properties = new Properties();
        if (!path.isEmpty()) {
            try (FileInputStream stream = new FileInputStream(path)) {
                properties.load(stream);
            }
        }
        return properties;
    }

    private static void row(StringBuilder out, String... cells) {
        out.append(String.join("\t", cells)).append('\n');
    }

    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }

    /** UTF-16, as a half of a character has no other bytes. */
    private static String encoded(String text) {
        byte[] bytes = new byte[text.length() * 2];
        for (int at = 0; at < text.length(); at++) {
            bytes[2 * at] = (byte) (text.charAt(at) >> 8);
            bytes[2 * at + 1] = (byte) text.charAt(at);
        }
        return Base64.getEncoder().encodeToString(bytes);
    }
}
