"""Reads a log to its end, and yields records and what is damaged as events; the callers print or keep them."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any, NamedTuple

from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.look.read.log_read import LogRead, SegmentRead


class FoundRecords(NamedTuple):
    """Records of a segment to show, or other items that were read of it."""

    segment: Segment
    found: Any


class DamagedPart(NamedTuple):
    """A place of a segment whose records were left out."""

    path: str
    fault: Fault


class NotRead(NamedTuple):
    """A file or partition of which nothing more was read."""

    path: str
    error: KafkalogError | OSError


ReadEvent = FoundRecords | DamagedPart | NotRead | Note


def read_events(
    log: LogRead, items: Callable[[SegmentRead], Generator[Any, None, None]], is_enough: Callable[[], bool] = bool
) -> Iterator[ReadEvent]:
    """Yield what `items` returns of each segment, until `is_enough`; an error ends at most its segment.

    Faults among the items become DamagedParts, and None stands for nothing to show. The exit codes are in `log.codes`.
    """
    with closing(log.segments()) as segments:
        for segment in segments:
            path = segment.segment.log.path
            try:
                with closing(items(segment)) as blocks:
                    for item in blocks:
                        if isinstance(item, Fault):
                            yield DamagedPart(path, item)
                        elif item is not None:
                            yield FoundRecords(segment.segment, item)
                        yield from _notes(log)
            except BrokenPipeError:
                raise
            except (KafkalogError, OSError) as error:
                log.codes.append(error.exit_code if isinstance(error, KafkalogError) else ExitCode.FAILURE)
                yield NotRead(path, error)
            if is_enough():
                break
    yield from _notes(log)


def _notes(log: LogRead) -> Iterator[Note]:
    while log.notes:
        yield log.notes.popleft()
