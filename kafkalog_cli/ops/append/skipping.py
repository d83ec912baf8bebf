"""Skip the records at the beginning of an input that an interrupted append has already appended."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import NamedTuple

from kafkalog_cli.errors import BadInput, UsageError
from kafkalog_cli.ops.append.ahead import Records
from kafkalog_cli.ops.append.columns import RecordRun
from kafkalog_cli.ops.append.reading import NewRecord


class SkippedRecords(NamedTuple):
    """The number of records to skip: for the only partition, or by number if there are several partitions."""

    of_only: int = 0
    by_partition: dict[int, int] = {}  # noqa: RUF012  never changed

    def of(self, partition: int) -> int:
        """Return the number of records to skip for a partition."""
        return self.by_partition.get(partition, self.of_only)

    def check(self, partitions: Sequence[int]) -> None:
        """Check the numbers against the partitions of the run.

        Raises UsageError for a number that is meant for another partition, or for no particular one of several.
        """
        unknown = sorted(self.by_partition.keys() - set(partitions))
        if unknown:
            raise UsageError(reason=f"--skip-records names partition {unknown[0]}, to which this append does not write")
        if self.of_only and len(partitions) > 1:
            raise UsageError(reason="--skip-records needs PARTITION:N where an append goes to several partitions")


def parse_skipped(words: Sequence[str]) -> SkippedRecords:
    """Parse the values of --skip-records: N, or PARTITION:N for each partition. Raises UsageError."""
    of_only, by_partition = 0, {}
    for word in words:
        name, colon, number = word.rpartition(":")
        if not (number.isdecimal() and number.isascii() and (not colon or (name.isdecimal() and name.isascii()))):
            raise UsageError(reason=f"--skip-records {word!r} is neither N nor PARTITION:N")
        if colon:
            by_partition[int(name)] = int(number)
        else:
            of_only = int(number)
    return SkippedRecords(of_only, by_partition)


def without_first(records: Records, count: int) -> Generator[NewRecord | RecordRun | None, None, None]:
    """Yield the records after the first `count`.

    Raises BadInput if there are fewer, since it is another input then.
    """
    left = count
    with closing(records):
        for found in records:
            if not left or found is None:
                yield found
            elif not isinstance(found, RecordRun):
                left -= 1
            elif len(found) <= left:
                left -= len(found)
            else:
                yield found.rest(left)
                left = 0
    if left:
        reason = f"the input has {count - left} records, and {count} are to be skipped: it is not the same input"
        raise BadInput(path="--skip-records", reason=reason)
