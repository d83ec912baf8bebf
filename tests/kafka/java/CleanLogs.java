import java.lang.reflect.Method;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;

/**
 * Opens a log with the real UnifiedLog, has the real Cleaner clean it if it is dirty enough, and stops it cleanly. After the words of
 * LoadLogs: high-watermark  checkpoint(none|OFFSET)  memory-bytes  io-buffer-bytes  force(0|1).
 * The answer: ok, last stable offset, first dirty, first uncleanable, clean bytes, cleanable bytes, delay, end offset (none: not cleaned).
 */
final class CleanLogs {
    private CleanLogs() {}

    static String clean(String[] words) {
        LogConfig config = new LogConfig(LoadLogs.settings(words, 12));
        LoadLogs.Clock clock = new LoadLogs.Clock(Long.parseLong(words[5]));
        LoadLogs.Opening opening = new LoadLogs.Opening(words[1], config, clock);
        opening.expirationMs = Integer.parseInt(words[6]);
        UnifiedLog log = null;
        try {
            log = opening.open(Long.parseLong(words[3]), Long.parseLong(words[2]), words[4].equals("1"));
            log.updateHighWatermark(Long.parseLong(words[7]));
            String answer = clean(log, config, clock, words);
            LoadLogs.end(log, true);
            return answer;
        } catch (Throwable thrown) {
            if (log != null) {
                LoadLogs.closeAnyhow(log);
            }
            return "refused\t" + thrown.getClass().getSimpleName() + "\t" + thrown.getMessage();
        }
    }

    private static String clean(UnifiedLog log, LogConfig config, LoadLogs.Clock clock, String[] words) throws Exception {
        Optional<Long> checkpoint = words[8].equals("none") ? Optional.empty() : Optional.of(Long.parseLong(words[8]));
        Object offsets = method(LogCleanerManager.class, "cleanableOffsets").invoke(null, log, checkpoint, clock.nowMs);
        long firstDirty = (Long) method(offsets.getClass(), "firstDirtyOffset").invoke(offsets);
        long firstUncleanable = (Long) method(offsets.getClass(), "firstUncleanableDirtyOffset").invoke(offsets);
        long delay = (Long) method(LogCleanerManager.class, "maxCompactionDelay").invoke(null, log, firstDirty, clock.nowMs);
        LogToClean dirty = new LogToClean(log, firstDirty, firstUncleanable, delay > 0);
        String answer = "ok\t" + log.lastStableOffset() + "\t" + dirty.firstDirtyOffset() + "\t" + dirty.firstUncleanableOffset()
            + "\t" + dirty.cleanBytes() + "\t" + dirty.cleanableBytes() + "\t" + delay + "\t";
        boolean isDue = dirty.totalBytes() > 0
            && (delay > 0 && dirty.cleanableBytes() > 0 || dirty.cleanableRatio() > config.minCleanableRatio);
        if (!isDue && !words[11].equals("1")) {
            return answer + "none";
        }
        if (dirty.cleanableBytes() == 0) {  // what was cleaned, once more
            dirty = new LogToClean(log, log.logStartOffset(), firstUncleanable, false);
            if (dirty.firstUncleanableOffset() == log.logSegments().iterator().next().baseOffset()) {
                return answer + "none";
            }
        }
        Throttler throttler = new Throttler(Double.MAX_VALUE, TimeUnit.HOURS.toMillis(1), "throttler", "entries", clock.time);
        Cleaner cleaner = new Cleaner(
            0, new SkimpyOffsetMap(Integer.parseInt(words[9])), Integer.parseInt(words[10]), 1 << 22, 0.9, throttler, clock.time,
            any -> { });
        Map.Entry<Long, CleanerStats> done = cleaner.doClean(dirty, clock.nowMs);
        return answer + done.getKey();
    }

    /** A method that Kafka hides: maxCompactionDelay always, the others since 4.3. */
    private static Method method(Class<?> owner, String name) {
        for (Method method : owner.getDeclaredMethods()) {
            if (method.getName().equals(name)) {
                method.setAccessible(true);
                return method;
            }
        }
        throw new IllegalStateException(owner + " has no " + name);
    }
}
