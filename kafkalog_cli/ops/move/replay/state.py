"""The state of a replay: how far the records of each partition are acknowledged. See docs/replay.md for its format."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from kafkalog_cli.disk.durable import not_changed
from kafkalog_cli.disk.fs import WritableFilesystem, read_all
from kafkalog_cli.disk.named_places import lock_named_file, replace_output
from kafkalog_cli.errors import BadInput, Refused
from kafkalog_cli.format.strict_json import anything, fields, flag, integer, list_of, one_of, parse, table, text

FORMAT = "kafkalog replay state, version 1"
_MOST_BYTES = 1 << 30


class TargetProgress(NamedTuple):
    """The progress of the records of a partition that go to one partition of the cluster.

    Those below `next_offset` are acknowledged. `target_offset` is the offset in the cluster after the last of them;
    before the first record, the end of the cluster's partition.
    """

    next_offset: int
    target_offset: int


@dataclass(slots=True)
class SentProgress:
    """The progress in one partition.

    The records below `next_offset` are acknowledged. `targets` has the partitions of the cluster that they go to.
    `is_under_way`: the cluster may have more records than `targets` knows, as the run did not come to its end.
    `translated` has the place in the cluster of committed offsets that have been passed.
    """

    topic: str
    partition: int
    target_topic: str
    next_offset: int
    targets: dict[int, TargetProgress]
    records: int = 0
    is_done: bool = False
    is_under_way: bool = False
    translated: dict[int, int] = field(default_factory=dict)

    @property
    def target_offset(self) -> int | None:
        """The `target_offset` of the same partition of the cluster. None if records go to several."""
        return self.targets[self.partition].target_offset if [*self.targets] == [self.partition] else None


class ReplayState:
    """A state file, which is locked inside `with`. `request` is what all runs with it must have in common.

    Raises Refused for a state of another request, BadInput for another file, and as `lock_named_file`.
    """

    def __init__(self, fs: WritableFilesystem, path: str, request: Mapping[str, Any]) -> None:
        self.path = os.path.abspath(path)  # noqa: PTH100 - links are not followed
        self.partitions: dict[tuple[str, int], SentProgress] = {}
        self._fs = fs
        self._request = dict(request)
        self._opened = ExitStack()

    def __enter__(self) -> ReplayState:
        with ExitStack() as opened:
            opened.enter_context(lock_named_file(self._fs, self.path, "kafkalog replay"))
            self.load()
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def load(self) -> None:
        """Read the file, if it is there. It is not locked for that."""
        if self._fs.status(self.path) is None:
            return
        found = self._read()
        if found["request"] != self._request:
            names = self._request.keys() | found["request"].keys()
            differing = sorted(name for name in names if found["request"].get(name) != self._request.get(name))
            reason = f"it belongs to a replay with another {' and '.join(differing) or 'request'}; give another --state"
            raise Refused(path=self.path, reason=reason)
        self.partitions.clear()
        for saved in found["partitions"]:
            targets = {number: TargetProgress(*reached) for number, *reached in saved["targets"]}
            progress = SentProgress(**{**saved, "targets": targets, "translated": dict(saved["translated"])})
            if self.partitions.setdefault((progress.topic, progress.partition), progress) is not progress:
                reason = f"{progress.topic}-{progress.partition} is there twice"
                raise BadInput(path=self.path, reason=f"it is not a state of kafkalog replay: {reason}")

    def save(self) -> None:
        """Replace the file by the current progress, durably. Raises NotChanged, NoSpace, SyncFailed."""
        document = {
            "format": FORMAT,
            "request": self._request,
            "partitions": [
                {
                    **asdict(progress),
                    "targets": [(number, *reached) for number, reached in sorted(progress.targets.items())],
                    "translated": sorted(progress.translated.items()),
                }
                for _, progress in sorted(self.partitions.items())
            ],
        }
        content = json.dumps(document, indent=1).encode() + b"\n"
        try:
            replace_output(self._fs, self.path, content)
        except OSError as error:
            raise not_changed(self.path, error) from error

    def _read(self) -> dict[str, Any]:
        try:
            parsed = parse(read_all(self._fs, self.path, _MOST_BYTES))
            _FORM(parsed)
        except ValueError as error:
            raise BadInput(path=self.path, reason=f"it is not a state of kafkalog replay: {error}") from error
        assert isinstance(parsed, dict)
        return parsed


def _numbers(count: int) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        list_of(integer())(value)
        if len(value) != count:
            raise ValueError(f"it is not {count} numbers")

    return check


_FORM = fields(
    {
        "format": one_of(FORMAT),
        "request": table(text, anything),
        "partitions": list_of(
            fields(
                {
                    "topic": text,
                    "partition": integer(most=(1 << 31) - 1),
                    "target_topic": text,
                    "next_offset": integer(),
                    "targets": list_of(_numbers(3)),
                    "records": integer(),
                    "is_done": flag,
                    "is_under_way": flag,
                    "translated": list_of(_numbers(2)),
                }
            )
        ),
    }
)
