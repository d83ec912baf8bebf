import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledFuture;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Loads partition directories with the real UnifiedLog, as LogManager does when a broker starts, and writes logs
 * with it (see RandomLogs). Lines of standard input, cells separated by tabs; or one such line as arguments:
 *   load      directory  recovery-point  log-start  clean(0|1)  now-ms  expiration-ms  stop|leave  name=value...
 *   generate  directory  seed  flavour  now-ms  stop|leave  name=value...
 *   change    directory  recovery-point  log-start  clean(0|1)  now-ms  expiration-ms  action  name=value...  (ChangeLogs)
 *   clean     directory  recovery-point  log-start  clean(0|1)  now-ms  expiration-ms  ...  name=value...  (CleanLogs)
 * "stop": then as at a broker's clean stop (flush, close); "leave": files are left as they are while it runs.
 * Answers, one line each: ok, log start, log end, recovery point, first unstable offset; or refused, class, message.
 */
public final class LoadLogs {
    private static final BrokerTopicStats STATS = new BrokerTopicStats();

    /** Runs at once what is due at once, and never what is due later: files marked as deleted stay. */
    private static final class NowOrNever implements Scheduler {
        @Override
        public void startup() {}

        @Override
        public void shutdown() {}

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (delayMs <= 0 && periodMs <= 0) {
                task.run();
            }
            return (ScheduledFuture<?>) Proxy.newProxyInstance(
                LoadLogs.class.getClassLoader(), new Class<?>[] {ScheduledFuture.class},
                (proxy, method, arguments) -> method.getReturnType() == boolean.class ? Boolean.FALSE : null);
        }

        @Override
        public void resizeThreadPool(int size) {}
    }

    /** What a log is opened with. */
    static final class Opening {
        final File directory;
        final LogConfig config;
        final Clock clock;
        int expirationMs = 86_400_000;

        Opening(String directory, LogConfig config, Clock clock) {
            this.directory = new File(directory);
            this.config = config;
            this.clock = clock;
        }

        UnifiedLog open(long logStart, long recoveryPoint, boolean clean) throws IOException {
            return UnifiedLog.create(
                directory, config, logStart, recoveryPoint, new NowOrNever(), STATS, clock.time, 300_000,
                new ProducerStateManagerConfig(expirationMs, false), 600_000, new LogDirFailureChannel(10), clean,
                Optional.empty(), new ConcurrentHashMap<>(), config.remoteStorageEnable(), LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        }
    }

    /** A clock that stands still. */
    static final class Clock {
        long nowMs;
        final Time time = (Time) Proxy.newProxyInstance(
            LoadLogs.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, arguments) -> method.getName().equals("milliseconds") || method.getName().equals("hiResClockMs")
                ? nowMs : method.invoke(Time.SYSTEM, arguments));

        Clock(long nowMs) {
            this.nowMs = nowMs;
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            String answer = answer(arguments);
            System.out.println(answer);
            System.exit(answer.startsWith("refused") ? 1 : 0);
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            System.out.println(answer(words).replaceAll("[\\r\\n]+", " "));
            System.out.flush();
        }
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "load":
                return load(words);
            case "change":
                return ChangeLogs.change(words);
            case "clean":
                return CleanLogs.clean(words);
            default:
                return generate(words);
        }
    }

    private static String load(String[] words) {
        LogConfig config = new LogConfig(settings(words, 8));
        Opening opening = new Opening(words[1], config, new Clock(Long.parseLong(words[5])));
        opening.expirationMs = Integer.parseInt(words[6]);
        UnifiedLog log = null;
        try {
            log = opening.open(Long.parseLong(words[3]), Long.parseLong(words[2]), words[4].equals("1"));
            String answer = described(log);
            end(log, words[7].equals("stop"));
            return answer;
        } catch (Throwable thrown) {
            if (log != null) {
                closeAnyhow(log);
            }
            return "refused\t" + thrown.getClass().getSimpleName() + "\t" + thrown.getMessage();
        }
    }

    private static String generate(String[] words) throws Exception {
        LogConfig config = new LogConfig(settings(words, 6));
        Clock clock = new Clock(Long.parseLong(words[4]));
        Opening opening = new Opening(words[1], config, clock);
        RandomLogs random = new RandomLogs(opening, Long.parseLong(words[2]), words[3]);
        UnifiedLog log = random.write();
        String answer = described(log);
        end(log, words[5].equals("stop"));
        return answer;
    }

    static String described(UnifiedLog log) {
        return "ok\t" + log.logStartOffset() + "\t" + log.logEndOffset() + "\t" + log.recoveryPoint() + "\t"
            + log.firstUnstableOffset().map(String::valueOf).orElse("none");
    }

    static void end(UnifiedLog log, boolean cleanly) {
        if (cleanly) {
            log.flush(true);  // LogManager.shutdown: both, then the checkpoints
            log.close();
        } else {
            log.closeHandlers();
        }
    }

    static void closeAnyhow(UnifiedLog log) {
        try {
            log.closeHandlers();
        } catch (RuntimeException second) {
            // the first one counts
        }
    }

    static Map<String, String> settings(String[] words, int from) {
        Map<String, String> found = new HashMap<>();
        for (String word : Arrays.asList(words).subList(from, words.length)) {
            int at = word.indexOf('=');
            found.put(word.substring(0, at), word.substring(at + 1));
        }
        return found;
    }
}
