"""The form of a manifest. Anybody may have written one, but an undo follows it with the rights of its own user.

So nothing is done by a manifest that this version of kafkalog cannot have written.
"""

import re
from collections.abc import Iterable
from typing import Any

from kafkalog_cli.change.runs import MANIFEST
from kafkalog_cli.disk.names import OWN_DIRECTORY
from kafkalog_cli.format.checkpoint import decode_offsets
from kafkalog_cli.format.strict_json import (
    MOST_NUMBER,
    anything,
    fields,
    flag,
    integer,
    list_of,
    nothing_or,
    one_of,
    shown,
    table,
    text,
)
from kafkalog_cli.log.log_dir import OFFSET_CHECKPOINTS

FORMAT = 1
_MOST_NAME_BYTES = 255
_ACTION = re.compile(r"[a-z][a-z-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FACTS = ("size_bytes", "mtime_ns", "inode", "mode")
_INT32 = (1 << 31) - 1
_MOST_MS = 253_402_300_799_999
"""The end of the year 9999, the last time that Python's calendar has."""
_MOST_NS = (MOST_NUMBER + 1) * 1_000_000_000
"""Times of files have 64 bits for the seconds: since the year 2262, their nanoseconds have more."""


def check_form(document: Any) -> None:
    """Raises ValueError unless the parsed JSON has the form of a manifest, and its parts agree with each other."""
    _DOCUMENT(document)
    before = document["before"]["files"]
    for change in document["changes"]:
        _check_change(change, before)
    _check_lines(document)


def _is_name(name: object) -> bool:
    """Whether `name` is the name of a directory entry other than `.kafkalog`."""
    if type(name) is not str or "/" in name or "\0" in name or name in {"", ".", "..", OWN_DIRECTORY}:
        return False
    return len(name.encode("utf-8", "surrogateescape")) <= _MOST_NAME_BYTES


def _file_name(value: Any) -> None:
    if not _is_name(value):
        raise ValueError(f"{value!r} is not the name of a file of a partition" if type(value) is str else "no name")


def _kept_name(value: Any) -> None:
    """The name of a file in the run's directory. The manifest itself is none that a change can take or give back."""
    if not _is_name(value) or value == MANIFEST:
        raise ValueError(f"{value!r} is not the name of a file that a run keeps" if type(value) is str else "no name")


def _files(value: Any) -> None:
    """As `table(_file_name, fields(…))`, without calls per number: there may be many thousands of files."""
    if type(value) is not dict:
        raise ValueError("it is not an object")
    for name, facts in value.items():
        _file_name(name)
        if type(facts) is not dict or facts.keys() != _FACT_NAMES:
            raise ValueError(f"{name!r} has other facts than {', '.join(_FACTS)}")
        size, mtime, inode, mode = (facts[one] for one in _FACTS)
        if not (type(size) is type(mtime) is type(inode) is type(mode) is int):
            raise ValueError(f"a fact of {name!r} is not a number")
        is_right = 0 <= size <= MOST_NUMBER and -_MOST_NS <= mtime < _MOST_NS
        if not (is_right and 0 <= inode <= 2 * MOST_NUMBER + 1 and 0 <= mode <= _INT32):
            raise ValueError(f"a fact of {name!r} is not a size, time, inode or mode")


def _time_ns(value: Any) -> None:
    if type(value) is not int or not -_MOST_NS <= value < _MOST_NS:
        raise ValueError(f"{shown(value)} is not a time")


def _matching(pattern: re.Pattern[str]) -> Any:
    def check(value: Any) -> None:
        if type(value) is not str or not pattern.fullmatch(value):
            raise ValueError(f"it is not of the form {pattern.pattern}")

    return check


def _check_change(change: dict[str, Any], before: dict[str, Any]) -> None:
    """Raises ValueError for a change that lacks what its undo needs."""
    kind, origin = change["kind"], change.get("origin")
    if origin is not None and origin not in before:
        raise ValueError(f"{origin!r} is to be changed, and was not there before")
    if kind == "move" and change.get("new_name") is None:
        raise ValueError(f"{change['name']!r} is renamed to nothing")
    if kind in {"replace", "grow"} and change["name"] not in before:
        raise ValueError(f"{change['name']!r} is to be changed, and was not there before")
    if kind == "replace" and change.get("kept") is None:
        raise ValueError(f"{change['name']!r} is replaced, and not kept")
    if kind == "put" and change.get("staged") is None:
        raise ValueError(f"{change['name']!r} comes from nowhere")
    if kind == "cut" and change.get("to_bytes", 0) > change.get("from_bytes", 0):
        raise ValueError(f"{change['name']!r} is cut to more than it has")
    if kind == "cut" and change.get("kept") is not None and change.get("sha256") is None:
        raise ValueError(f"what was cut off {change['name']!r} has no digest")


def _check_lines(document: dict[str, Any]) -> None:
    """Raise ValueError unless all lines of checkpoints belong to one partition, and are lines that the run changed."""
    edits = document["edits"]
    partitions = {(edit["topic"], edit["partition"]) for edit in edits}
    if len(partitions) > 1:
        raise ValueError("it changes lines of several partitions in the checkpoints")
    given = {edit["kind"] for edit in edits}
    kinds = [kind.value for kind in OFFSET_CHECKPOINTS if kind.value in given]
    if len(given) < len(edits):
        raise ValueError("it changes a line of a checkpoint twice")
    for snapshot in (document["before"], document["after"]):
        if snapshot is not None:
            _check_old_lines(snapshot["checkpoint_lines"], kinds, partitions)


def _check_old_lines(found: list[dict[str, Any]], kinds: list[str], partitions: Iterable[tuple[str, int]]) -> None:
    if [old["file"] for old in found] != kinds:
        raise ValueError("its checkpoints differ from the checkpoints that it changes")
    for old in found:
        lines = old["lines"]
        if {(line["topic"], line["partition"]) for line in lines} != set(partitions) or len(lines) != 1:
            raise ValueError(f"its line in {old['file']} differs from the line that it changes")
        (line,) = lines
        if (line["text"] is None) != (line["place"] is None):
            raise ValueError(f"its line in {old['file']} has a text without a place, or a place without a text")
        if line["text"] is not None and not _is_line_of(line["text"], line["topic"], line["partition"]):
            raise ValueError(f"{line['text']!r} is not a line of {line['topic']}-{line['partition']}")


def _is_line_of(line: str, topic: str, partition: int) -> bool:
    """Whether a text is one line of a checkpoint, and of this partition."""
    entries, faults = decode_offsets(b"0\n1\n" + line.encode() + b"\n")
    return not faults and [(entry.topic, entry.partition) for entry in entries] == [(topic, partition)]


_FACT_NAMES = set(_FACTS)
_NUMBER = integer()
_CHECKPOINT = one_of(*(kind.value for kind in OFFSET_CHECKPOINTS))
_LINE = fields({"topic": text, "partition": integer(-_INT32 - 1, _INT32), "text": nothing_or(text),
                "place": nothing_or(_NUMBER)})  # fmt: skip
_SNAPSHOT = fields({
    "mtime_ns": _time_ns,
    "files": _files,
    "checkpoint_lines": list_of(fields({
        "file": _CHECKPOINT, "size_bytes": nothing_or(_NUMBER), "sha256": _matching(_SHA256), "mtime_ns": _time_ns,
        "lines": list_of(_LINE),
    })),
})  # fmt: skip
_CHANGE = fields({"kind": one_of("cut", "move", "drop", "put", "grow", "replace", "make"), "name": _file_name}, {
    "new_name": nothing_or(_file_name), "origin": nothing_or(_file_name), "from_bytes": _NUMBER, "to_bytes": _NUMBER,
    "replaces": flag, "linked": flag, "kept": nothing_or(_kept_name), "staged": nothing_or(_kept_name),
    "sha256": nothing_or(_matching(_SHA256)), "mtime_ns": _time_ns,
})  # fmt: skip
_MS = integer(-_MOST_MS, _MOST_MS)
_RUN = fields({"run_id": text, "action": _matching(_ACTION), "argv": list_of(text), "now_ms": _MS}, {
    "settings": table(text, anything), "version": text, "holds_marker": flag, "keeps_records": flag,
    "makes_directory": flag, "makes_files": list_of(_file_name),
})  # fmt: skip
_DOCUMENT = fields({
    "format": integer(FORMAT, FORMAT), "state": one_of("started", "growing", "done", "undoing", "undone"),
    "directory": text, "discard": flag, "finished_ms": nothing_or(_MS), "run": _RUN, "changes": list_of(_CHANGE),
    "edits": list_of(fields({"kind": _CHECKPOINT, "topic": text, "partition": integer(-_INT32 - 1, _INT32),
                             "offset": nothing_or(_NUMBER)})),
    "before": _SNAPSHOT, "after": nothing_or(_SNAPSHOT), "facts": table(text, anything),
}, {"order": _NUMBER})  # fmt: skip
