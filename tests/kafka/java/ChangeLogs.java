import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.RollParams;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;

/**
 * Opens a log with the real UnifiedLog, has it do one thing, and stops it cleanly. The action is one of
 *   nothing | append:FILE:LEADER-EPOCH | retain:HIGH-WATERMARK | roll | roll-if:BYTES:TIMESTAMP:OFFSET | truncate:OFFSET | delete-records:HIGH-WATERMARK:OFFSET
 * The answer is that of LoadLogs, and the number of segments that went, or whether it rolled.
 */
final class ChangeLogs {
    /** The markers of version 1 have the epoch of the producer. */
    private static final short TRANSACTION_VERSION = 1;

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
            case "append":
                return append(log, action[1], Integer.parseInt(action[2]));
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

    /** Each batch of a file alone, as a producer or the coordinator of a transaction sends it. */
    private static long append(UnifiedLog log, String path, int leaderEpoch) throws Exception {
        MemoryRecords all = MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(Path.of(path))));
        long count = 0;
        for (MutableRecordBatch batch : all.batches()) {
            ByteBuffer alone = ByteBuffer.allocate(batch.sizeInBytes());
            batch.writeTo(alone);
            alone.flip();
            AppendOrigin origin = batch.isControlBatch() ? AppendOrigin.COORDINATOR : AppendOrigin.CLIENT;
            log.appendAsLeader(
                MemoryRecords.readableRecords(alone), leaderEpoch, origin, RequestLocal.noCaching(),
                VerificationGuard.SENTINEL, TRANSACTION_VERSION);
            count++;
        }
        return count;
    }
}
