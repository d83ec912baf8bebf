import java.util.Optional;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.RollParams;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * Opens a log with the real UnifiedLog, has it do one thing, and stops it cleanly. The action is one of
 *   nothing | retain:HIGH-WATERMARK | roll | roll-if:BYTES:TIMESTAMP:OFFSET | truncate:OFFSET | delete-records:HIGH-WATERMARK:OFFSET
 * The answer is that of LoadLogs, and the number of segments that went, or whether it rolled.
 */
final class ChangeLogs {
    private ChangeLogs() {}

    static String change(String[] words) {
        LogConfig config = new LogConfig(LoadLogs.settings(words, 8));
        LoadLogs.Clock clock = new LoadLogs.Clock(Long.parseLong(words[5]));
        LoadLogs.Opening opening = new LoadLogs.Opening(words[1], config, clock);
        opening.expirationMs = Integer.parseInt(words[6]);
        UnifiedLog log = null;
        try {
            log = opening.open(Long.parseLong(words[3]), Long.parseLong(words[2]), words[4].equals("1"));
            long done = act(log, clock.nowMs, words[7].split(":"));
            String answer = LoadLogs.described(log) + "\t" + done;
            LoadLogs.end(log, true);
            return answer;
        } catch (Throwable thrown) {
            if (log != null) {
                LoadLogs.closeAnyhow(log);
            }
            return "refused\t" + thrown.getClass().getSimpleName() + "\t" + thrown.getMessage();
        }
    }

    private static long act(UnifiedLog log, long nowMs, String[] action) throws Exception {
        switch (action[0]) {
            case "nothing":
                return 0;
            case "retain":
                log.updateHighWatermark(Long.parseLong(action[1]));
                return log.deleteOldSegments();
            case "delete-records":
                log.updateHighWatermark(Long.parseLong(action[1]));
                log.maybeIncrementLogStartOffset(
                    Long.parseLong(action[2]), LogStartOffsetIncrementReason.ClientRecordDeletion);
                return log.deleteOldSegments();
            case "truncate":
                log.updateHighWatermark(log.logEndOffset());
                for (LogSegment segment : log.logSegments()) {
                    segment.largestTimestamp();  // one that has been asked for it closes its time index
                }
                return log.truncateTo(Long.parseLong(action[1])) ? 1 : 0;
            case "roll":
                log.roll(Optional.empty());
                return 1;
            case "roll-if":
                RollParams arriving = new RollParams(
                    log.config().maxSegmentMs(), log.config().segmentSize(), Long.parseLong(action[2]),
                    Long.parseLong(action[3]), Integer.parseInt(action[1]), nowMs);
                if (!log.activeSegment().shouldRoll(arriving)) {
                    return 0;
                }
                log.roll(Optional.empty());
                return 1;
            default:
                throw new IllegalArgumentException(action[0]);
        }
    }
}
