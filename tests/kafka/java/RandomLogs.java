import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;

/**
 * Writes a random log through the real UnifiedLog: as a leader and as a follower, with every codec and magic,
 * idempotent producers and transactions, empty batches and gaps as a cleaner leaves them, rolls, new leaders,
 * records deleted from the front, cuts at the end, restarts. One seed, one log.
 */
final class RandomLogs {
    private static final CompressionType[] CODECS = CompressionType.values();
    private static final long DAY_MS = 86_400_000;

    private static final class Producer {
        long id;
        short epoch;
        int sequence;
        boolean isOpen;
    }

    private final LoadLogs.Opening opening;
    private final Random random;
    private final String flavour;
    private final List<Producer> producers = new ArrayList<>();
    private UnifiedLog log;
    private int leaderEpoch;
    private boolean mayBeZero;  // 0 is the least producer id; only one producer of a log has it

    /** The flavour holds letters: p producers, t transactions, g gaps, w wide gaps, o old magics, e epochs, f from the front, r restarts, k few keys, v markers of transaction version 2. */
    RandomLogs(LoadLogs.Opening opening, long seed, String flavour) {
        this.opening = opening;
        this.random = new Random(seed * 7919 + 17);
        this.flavour = flavour;
    }

    UnifiedLog write() throws IOException {
        log = opening.open(0, 0, true);
        mayBeZero = log.size() == 0;
        long end = opening.clock.nowMs;
        opening.clock.nowMs -= has('a') ? 5 * DAY_MS : 1_000_000;
        long step = (end - opening.clock.nowMs) / 100;
        for (int left = random.nextInt(70) + 2; left > 0; left--) {
            opening.clock.nowMs += random.nextInt((int) step);
            one();
        }
        opening.clock.nowMs = end;
        return log;
    }

    private boolean has(char what) {
        return flavour.indexOf(what) >= 0;
    }

    private void one() throws IOException {
        int kind = random.nextInt(100);
        if (kind < 8 && has('o')) {
            old();
        } else if (kind < 18 && has('t') && anyOpen() != null) {
            endTransaction(anyOpen());
        } else if (kind < 24 && has('g')) {
            follow(empty());
        } else if (kind < 34 && (has('g') || has('w'))) {
            follow(withGaps(log.logEndOffset() + gap()));
        } else if (kind < 37) {
            log.roll();
        } else if (kind < 41 && has('e')) {
            leaderEpoch += 1 + random.nextInt(3);
        } else if (kind < 43 && has('f')) {
            fromTheFront();
        } else if (kind < 44 && has('r')) {
            restart();
        } else if (kind < 45 && has('r')) {
            log.truncateTo(Math.max(log.logStartOffset(), log.logEndOffset() - random.nextInt(12)));
            producers.clear();
        } else {
            lead();
        }
    }

    private long gap() {
        if (has('w') && random.nextInt(3) == 0) {
            return random.nextInt(3) == 0 ? random.nextInt(Integer.MAX_VALUE) : Integer.MAX_VALUE - 3L + random.nextInt(9);
        }
        return random.nextInt(5);
    }

    // -- appends

    private void lead() throws IOException {
        MemoryRecords records;
        if (has('t') || has('p') && random.nextInt(4) > 0) {
            Producer producer = producer();
            boolean isTransactional = producer.isOpen || has('t') && random.nextInt(3) > 0;
            MemoryRecordsBuilder builder = builder(codec(), 0, producer, isTransactional);
            int count = fill(builder, 0, 1);
            records = builder.build();
            if (fits(records)) {
                producer.sequence += count;
                producer.isOpen = isTransactional;
            }
        } else {
            MemoryRecordsBuilder builder = builder(codec(), 0, null, false);
            fill(builder, 0, 1);
            records = builder.build();
        }
        if (fits(records)) {
            log.appendAsLeader(records, leaderEpoch);
        }
    }

    private boolean fits(MemoryRecords records) {
        return records.sizeInBytes() <= opening.config.segmentSize();
    }

    private MemoryRecordsBuilder builder(Compression codec, long base, Producer producer, boolean isTransactional) {
        TimestampType type = random.nextInt(9) == 0 ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        long id = producer == null ? -1 : producer.id;
        short epoch = producer == null ? -1 : producer.epoch;
        int sequence = producer == null ? -1 : producer.sequence;
        if (base == 0) {
            type = TimestampType.CREATE_TIME;  // what clients send
        }
        return MemoryRecords.builder(
            ByteBuffer.allocate(1 << 14), (byte) 2, codec, type, base, opening.clock.nowMs, id, epoch, sequence,
            isTransactional, leaderEpoch);
    }

    private Compression codec() {
        return Compression.of(random.nextInt(2) == 0 ? CompressionType.NONE : CODECS[random.nextInt(CODECS.length)]).build();
    }

    private int fill(MemoryRecordsBuilder builder, long base, int most) {
        int count = random.nextInt(random.nextInt(4) == 0 ? 12 : 4) + 1;
        long offset = base;
        for (int at = 0; at < count; at++) {
            builder.appendWithOffset(offset, timestamp(), has('k') ? key() : bytes(9), random.nextInt(9) == 0 ? null : bytes(90));
            offset += most == 1 ? 1 : 1 + random.nextInt(most);
        }
        return (int) (offset - base);
    }

    private long timestamp() {
        return random.nextInt(40) == 0 ? -1 : opening.clock.nowMs - random.nextInt(2_000);
    }

    private byte[] bytes(int most) {
        byte[] made = new byte[random.nextInt(most)];
        for (int at = 0; at < made.length; at++) {
            made[at] = (byte) ('a' + random.nextInt(26));
        }
        return made;
    }

    private byte[] key() {
        int kind = random.nextInt(60);
        return kind == 0 ? null : kind == 1 ? new byte[0] : ("key-" + random.nextInt(12)).getBytes();
    }

    private Producer producer() {
        if (producers.isEmpty() || random.nextInt(12) == 0) {
            Producer made = new Producer();
            made.id = mayBeZero && random.nextInt(3) == 0 ? 0 : 1000 + random.nextInt(1 << 20);
            mayBeZero &= made.id != 0;
            made.sequence = random.nextInt(8) == 0 ? Integer.MAX_VALUE - 2 : 0;
            producers.add(made);
        }
        Producer found = producers.get(random.nextInt(producers.size()));
        if (found.sequence < 0) {
            found.sequence = found.sequence - Integer.MIN_VALUE;  // they go on at 0
        }
        if (!found.isOpen && random.nextInt(20) == 0) {
            found.epoch++;
            found.sequence = 0;
        }
        return found;
    }

    private Producer anyOpen() {
        return producers.stream().filter(producer -> producer.isOpen).findFirst().orElse(null);
    }

    private void endTransaction(Producer producer) {
        if (has('v')) {
            producer.epoch++;
            producer.sequence = 0;
        }
        ControlRecordType type = random.nextBoolean() ? ControlRecordType.ABORT : ControlRecordType.COMMIT;
        log.appendAsLeader(
            MemoryRecords.withEndTransactionMarker(
                0, opening.clock.nowMs, leaderEpoch, producer.id, producer.epoch, new EndTransactionMarker(type, 3)),
            leaderEpoch, AppendOrigin.COORDINATOR, RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) (has('v') ? 2 : 1));
        producer.isOpen = false;
    }

    private void follow(MemoryRecords records) {
        if (fits(records)) {
            log.appendAsFollower(records, leaderEpoch);
        }
    }

    /** One to three batches with offsets missing in them and between them. */
    private MemoryRecords withGaps(long from) {
        ByteBuffer all = ByteBuffer.allocate(1 << 16);
        long base = from;
        for (int left = random.nextInt(3) + 1; left > 0; left--) {
            MemoryRecordsBuilder builder = builder(codec(), base, null, false);
            int length = fill(builder, base, 3);
            if (random.nextInt(3) == 0) {
                length += random.nextInt(4);
                builder.overrideLastOffset(base + length - 1);
            }
            all.put(builder.build().buffer());
            base += length + random.nextInt(3);
        }
        all.flip();
        return MemoryRecords.readableRecords(all);
    }

    private MemoryRecords empty() {
        ByteBuffer header = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        long base = log.logEndOffset() + random.nextInt(3);
        Producer producer = has('p') ? producer() : null;
        if (producer != null && producer.isOpen) {
            producer = null;
        }
        int delta = random.nextInt(5);
        DefaultRecordBatch.writeEmptyHeader(
            header, (byte) 2, producer == null ? -1 : producer.id, producer == null ? -1 : producer.epoch,
            producer == null ? -1 : producer.sequence, base, base + delta, leaderEpoch, TimestampType.CREATE_TIME,
            random.nextBoolean() ? -1 : opening.clock.nowMs, false, false);
        if (producer != null) {
            producer.sequence += delta + 1;
        }
        header.flip();
        return MemoryRecords.readableRecords(header);
    }

    /** A message set of old, as the log keeps those that it has. */
    private void old() {
        byte magic = (byte) random.nextInt(2);
        Compression codec = Compression.of(CODECS[random.nextInt(4)]).build();
        long base = log.logEndOffset() + random.nextInt(2);
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(1 << 14), magic, codec,
            magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME, base, opening.clock.nowMs, leaderEpoch);
        fill(builder, base, random.nextInt(3) + 1);
        follow(builder.build());
    }

    // -- the rest of a log's life

    private void fromTheFront() throws IOException {
        log.updateHighWatermark(log.logEndOffset());
        long start = log.logStartOffset();
        long to = start + (long) (random.nextDouble() * (log.logEndOffset() - start + 1));
        log.maybeIncrementLogStartOffset(
            Math.min(to, log.logEndOffset()), LogStartOffsetIncrementReason.ClientRecordDeletion);
        if (random.nextBoolean()) {
            log.deleteOldSegments();
        }
    }

    private void restart() throws IOException {
        long start = log.logStartOffset();
        long end = log.logEndOffset();
        LoadLogs.end(log, true);
        log = opening.open(start, end, true);
    }
}
