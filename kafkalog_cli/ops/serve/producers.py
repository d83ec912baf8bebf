"""The producers of a partition as its leader has them: the newest producer snapshot, and the log after it."""

from collections.abc import Iterable, Sequence

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.producer_state import ProducerReplay, ProducerState
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.errors import Unreadable
from kafkalog_cli.format.columns import rows_where
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.log.open_transactions import parts_to_replay, read_newest_snapshot
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.reading.scan import Chunk
from kafkalog_cli.log.reading.segment_reader import DamagePolicy, SegmentReader


def producers_of(
    fs: Filesystem, partition: Partition, end_offset: int, kernels: KernelChoice | None
) -> Sequence[ProducerEntry]:
    """Return the producers at the end of the log, in order of arrival. Damaged batches are left out.

    Raises as `open_read`; Unreadable for a log that a broker would not replay, Refused for too many producers.
    """
    start, state = read_newest_snapshot(fs, partition, end_offset, _loaded) or (0, ProducerState(partition.path))
    replay = ProducerReplay(state, DEFAULT_LIMITS)
    try:
        for segment, position in parts_to_replay(fs, partition.segments, start):
            with fs.open_read(segment.log.path) as log:
                for chain in SegmentReader(log, DamagePolicy.RESYNC, start=position, kernels=kernels).chains():
                    for chunk in chain:
                        _apply(replay, chunk, start)
        replay.finish()
    except LoadFailed as error:
        raise Unreadable(path=partition.path, reason=f"a broker does not replay it: {error}") from error
    return list(state.producers.entries())


def _apply(replay: ProducerReplay, chunk: Chunk, start: int) -> None:
    batches = chunk.batches
    rows = rows_where(
        lambda last, producer, valid: (last >= start) & (producer >= 0) & (valid != 0),
        batches.last_offset, batches.producer_id, batches.valid,
    )  # fmt: skip
    for row in rows:
        replay.apply(chunk, row, row + 1)


def _loaded(entries: Iterable[ProducerEntry], path: str) -> ProducerState:
    state = ProducerState(path)
    state.load(entries)
    return state
