"""The request of `find`: conditions of a record, with paths into JSON values, and the rows that meet them."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from kafkalog_cli.errors import UsageError
from kafkalog_cli.format.batch import CODEC_MASK
from kafkalog_cli.format.columns import rows_where
from kafkalog_cli.format.records import OUTSIDE, RecordBlock, header_views, view_of
from kafkalog_cli.format.values.decoder import Undecoded, ValueDecoder
from kafkalog_cli.log.reading.scan import Chunk, Rows
from kafkalog_cli.ops.keys import WantedKey, is_equal
from kafkalog_cli.ops.look.read.request import ReadRequest
from kafkalog_cli.ops.values import UndecodedCounts

LARGEST_JSON_BYTES, _MOST_JSON_VALUES = 64 << 20, 2 << 20
"""Larger values, and values with more elements, are not parsed: each element is an object of Python."""

_STEP = re.compile(
    r"""\.?(?P<name>[^.\[\]"'=\s]+)|\[(?:(?P<index>-?\d+)|(?P<every>\*)|(?P<quoted>"(?:[^"\\]|\\.)*"))\]"""
)
_EVERY = ...

Step = Any
"""A name (text), an index (a number), or `...` for each element."""


class JsonCondition(NamedTuple):
    """A condition on a JSON value: something is at the path; with `wanted`, it is equal to that text or JSON value.

    `of_key`: it is a condition on the key.
    """

    steps: tuple[Step, ...]
    wanted: str | None = None
    of_key: bool = False

    def holds(self, data: bytes | memoryview) -> bool:
        """Whether these bytes are JSON and meet the condition. Raises ValueError if they are too large to be parsed."""
        value = _parsed(data)
        return value is not ... and self.holds_of(value)

    def holds_of(self, value: Any) -> bool:
        """Whether a JSON value meets the condition."""
        return any(self.wanted is None or is_equal(element, self.wanted) for element in _at(value, self.steps))


def _parsed(data: bytes | memoryview) -> Any:
    """Return a JSON value as it is stored; `...` for bytes that are not JSON. Raises ValueError if it is not parsed."""
    if bytes(data[:1]) not in _BEGINNINGS_OF_JSON:
        return ...
    if len(data) > LARGEST_JSON_BYTES:
        raise ValueError(f"it has {len(data)} bytes, and at most {LARGEST_JSON_BYTES} are searched for --json")
    raw = bytes(data)
    if sum(map(raw.count, (b",", b"[", b"{"))) > _MOST_JSON_VALUES:
        raise ValueError(f"it has more than {_MOST_JSON_VALUES} elements, the most that are searched for --json")
    try:
        return json.loads(raw)
    except RecursionError:
        raise ValueError("it is nested too deep to be searched for --json") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        return ...
    except ValueError:
        raise ValueError("it has a number of too many digits to be searched for --json") from None


_BEGINNINGS_OF_JSON = frozenset(bytes((byte,)) for byte in b' \t\r\n{["-0123456789tfnIN\xef')


def parse_json_condition(text: str, *, has_keys: bool = False) -> JsonCondition:
    """Return the condition of PATH or PATH=VALUE. Raises UsageError.

    `has_keys`: keys are decoded, so that a path that begins with `key` leads into the key.
    """
    at = 2 if text.startswith("$.") else 1 if text.startswith(("$[", "$=")) or text == "$" else 0
    steps: list[Step] = []
    while at < len(text) and text[at] != "=":
        match = _STEP.match(text, at)
        if match is None:
            raise UsageError(reason=f"--json {text}: a path is names and indexes, such as order.items[0].id or [*].id")
        steps.append(_step(match))
        at = match.end()
    if not steps and not text.startswith("$"):
        raise UsageError(reason=f"--json {text}: there is no path before the value; $ is the whole value")
    of_key = has_keys and steps[:1] == ["key"] and not text.startswith("$")
    return JsonCondition(tuple(steps[of_key:]), text[at + 1 :] if at < len(text) else None, of_key)


def _step(match: re.Match[str]) -> Step:
    if match["name"] is not None:
        return match["name"]
    if match["index"] is not None:
        return int(match["index"])
    return _EVERY if match["every"] else json.loads(match["quoted"])


def _at(value: Any, steps: tuple[Step, ...]) -> Iterator[Any]:
    for number, step in enumerate(steps):
        if step is _EVERY:
            for element in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
                yield from _at(element, steps[number + 1 :])
            return
        if isinstance(step, str):
            if not isinstance(value, dict) or step not in value:
                return
            value = value[step]
        else:
            if not isinstance(value, list) or not -len(value) <= step < len(value):
                return
            value = value[step]
    yield value


_COPIED_BYTES = 8 << 20
"""Most bytes that are copied to search them at once. Larger values are searched one by one, without a copy."""


class HeaderCondition(NamedTuple):
    """A header of this name; with `value`, of this value too."""

    name: bytes
    value: bytes | None = None

    def holds(self, name: memoryview, value: memoryview | None) -> bool:
        """Whether a header meets the condition."""
        return bytes(name) == self.name and (self.value is None or (value is not None and bytes(value) == self.value))


class Conditions(NamedTuple):
    """Conditions on a record, all of which it must meet; None or empty: no condition.

    `key` is the key, and `value` a part of the value. `pattern` is searched in the key, then in the value.
    `ignores_case` holds for `value`, and for ASCII letters.
    """

    key: WantedKey | None = None
    value: bytes | None = None
    ignores_case: bool = False
    pattern: re.Pattern[bytes] | None = None
    headers: tuple[HeaderCondition, ...] = ()
    json: tuple[JsonCondition, ...] = ()

    @property
    def literal(self) -> bytes | None:
        """The longest bytes that each matching record has as they are; None if there are none."""
        literals = [None if self.ignores_case else self.value]
        if self.key is not None and self.key.stored is not None and len(self.key.stored) == 1:
            literals += self.key.stored
        for header in self.headers:
            literals += [header.name, header.value]
        return max((data for data in literals if data), key=len, default=None)

    def spans(self, data: bytes) -> list[tuple[int, int]]:
        """Return the parts of a key or value to highlight, in ascending order."""
        is_key = data and self.key is not None and data in (self.key.stored or ())
        spans = [(0, len(data))] if is_key else []
        for pattern in (self._value_pattern, self.pattern):
            if pattern is not None:
                spans += [match.span() for match in pattern.finditer(data) if match.end() > match.start()]
        return sorted(spans)

    @property
    def _value_pattern(self) -> re.Pattern[bytes] | None:
        return None if self.value is None else re.compile(re.escape(self.value), _flags(self.ignores_case))


def parse_regex(text: str, *, ignores_case: bool = False) -> re.Pattern[bytes]:
    """Return a pattern over bytes. Raises UsageError."""
    try:
        return re.compile(text.encode("utf-8", "surrogateescape"), _flags(ignores_case))
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(reason=f"--regex {text}: {error}") from error


def _flags(ignores_case: bool) -> re.RegexFlag:
    return re.IGNORECASE if ignores_case else re.RegexFlag(0)


class Matcher:
    """Finds the records of blocks that meet the conditions. Batches without the literal bytes need not be decoded."""

    def __init__(self, conditions: Conditions, topic: str = "", decoder: ValueDecoder | None = None) -> None:
        """`decoder` decodes the values of `topic`, in which JSON conditions look; None: they are JSON as stored."""
        self.undecoded = UndecodedCounts()
        self._conditions = conditions
        self._topic = topic
        # Its readers belong to one thread.
        self._decoder = None if decoder is None else decoder.of_another_thread()
        self._key = (
            None if conditions.key is None else conditions.key.with_decoder(decoder).in_topic(topic, self.undecoded)
        )
        self._literal = conditions.literal
        # The regular expression is the last and slowest question, but JSON is slower still.
        questions: list[Callable[[memoryview, Sequence[int]], bool]] = []
        if conditions.headers:
            questions.append(self._has_headers)
        if conditions.value is not None and conditions.ignores_case:
            questions.append(self._has_value)
        if conditions.pattern is not None:
            questions.append(self._has_pattern)
        if conditions.json:
            questions.append(self._has_json)
        self._questions = questions
        self._value = re.compile(re.escape(conditions.value or b""), _flags(conditions.ignores_case))

    def rows_to_read(self, chunk: Chunk, rows: list[Rows]) -> list[Rows]:
        """Return those of some batches of a chunk that may have a match: others are neither decoded nor checked.

        Compressed batches always may. Works for any thread.
        """
        if self._literal is None or not rows:
            return rows
        batches = chunk.batches
        attributes, positions, sizes = batches.attributes, batches.position, batches.size_bytes
        chosen: list[Rows] = []
        for first, end in rows:
            candidates = self._batches_with(chunk, range(first, end), attributes, positions, sizes)
            for row in candidates:
                if chosen and chosen[-1][1] == row:
                    chosen[-1] = chosen[-1][0], row + 1
                else:
                    chosen.append((row, row + 1))
        return chosen

    def _batches_with(
        self, chunk: Chunk, rows: range, attributes: Sequence[int], positions: Sequence[int], sizes: Sequence[int]
    ) -> Iterable[int]:
        """Return the rows that are compressed, or have the literal bytes."""
        assert self._literal is not None
        begin = positions[rows[0]] - chunk.position
        end = positions[rows[-1]] + sizes[rows[-1]] - chunk.position
        if end - begin > _COPIED_BYTES:
            pattern = re.compile(re.escape(self._literal))
            data, start = chunk.view, 0
        else:
            pattern, data, start = None, memoryview(bytes(chunk.view[begin:end])), begin
        hit = -1
        for row in rows:
            if attributes[row] & CODEC_MASK:
                yield row
                continue
            at = positions[row] - chunk.position - start
            if pattern is not None:
                if pattern.search(data, at, at + sizes[row]) is not None:
                    yield row
            else:
                if hit < at:
                    hit = data.obj.find(self._literal, at)  # type: ignore[attr-defined]
                    if hit < 0:
                        hit = len(data) + len(self._literal)
                if hit + len(self._literal) <= at + sizes[row]:
                    yield row

    def rows(self, block: RecordBlock) -> list[int]:
        """Return the rows of the records of a block that meet all conditions, in ascending order."""
        records, conditions = block.records, self._conditions
        rows: Sequence[int] = range(len(records))
        if self._key is not None:
            rows = self._key.rows(block)
        if conditions.value is not None and not conditions.ignores_case and rows:
            rows = self._rows_with_value(block, rows, conditions.value)
        if not self._questions or not rows:
            return list(rows)
        columns = [*records.columns()[3:9], records.offset]
        buffer, matching = block.buffer, []
        for row in rows:
            fields = [column[row] for column in columns]
            if all(question(buffer, fields) for question in self._questions):
                matching.append(row)
        return matching

    def _rows_with_value(self, block: RecordBlock, rows: Sequence[int], value: bytes) -> list[int]:
        """Search the bytes of all values at once, and then the single values only if something was found."""
        search, buffer = self._value.search, block.buffer
        begin, end = _part_with_values(block)
        if end - begin <= _COPIED_BYTES and value not in bytes(buffer[begin:end]):
            return []
        positions, sizes = block.records.value_position, block.records.value_size
        return [
            row
            for row in rows
            if sizes[row] >= len(value) and positions[row] != OUTSIDE
            if search(buffer, positions[row], positions[row] + sizes[row])
        ]

    def _has_value(self, buffer: memoryview, fields: Sequence[int]) -> bool:
        at, size = fields[2], fields[3]
        return size >= 0 and at != OUTSIDE and self._value.search(buffer, at, at + size) is not None

    def _has_pattern(self, buffer: memoryview, fields: Sequence[int]) -> bool:
        pattern = self._conditions.pattern
        assert pattern is not None
        for at, size in ((fields[0], fields[1]), (fields[2], fields[3])):
            data = view_of(buffer, at, size)
            if data is not None and pattern.search(data) is not None:
                return True
        return False

    def _has_headers(self, buffer: memoryview, fields: Sequence[int]) -> bool:
        if not fields[5]:
            return False
        headers = list(header_views(buffer, fields[4], fields[5]))
        return all(any(condition.holds(*header) for header in headers) for condition in self._conditions.headers)

    def _has_json(self, buffer: memoryview, fields: Sequence[int]) -> bool:
        for of_key, at in ((True, 0), (False, 2)):
            conditions = [condition for condition in self._conditions.json if condition.of_key == of_key]
            if conditions and not self._holds(conditions, buffer, fields, at):
                return False
        return True

    def _holds(self, conditions: Sequence[JsonCondition], buffer: memoryview, fields: Sequence[int], at: int) -> bool:
        """Whether the conditions hold for the key (`at` 0) or the value (`at` 2)."""
        data, what = view_of(buffer, fields[at], fields[at + 1]), "value" if at else "key"
        if data is None:
            return False
        decoded: Any = None
        if self._decoder is not None:
            headers: Any = partial(header_views, buffer, fields[4], fields[5]) if fields[5] else None
            decoded = (self._decoder.value if at else self._decoder.key)(self._topic, data, headers)
        if decoded is None:
            try:
                return all(condition.holds(data) for condition in conditions)
            except ValueError as error:
                decoded = Undecoded(str(error))
        if isinstance(decoded, Undecoded):
            self.undecoded.add(what, decoded.reason, fields[6])
            return False
        return all(condition.holds_of(decoded.value) for condition in conditions)


def _part_with_values(block: RecordBlock) -> tuple[int, int]:
    """Return the bytes of the buffer (from, to) that have all values."""
    position, size = block.records.value_position, block.records.value_size
    rows = rows_where(lambda at, size: (size > 0) & (at != OUTSIDE), position, size)
    if not rows:
        return 0, 0
    return min(map(position.__getitem__, rows)), max(position[row] + size[row] for row in rows)


@dataclass(frozen=True, slots=True)
class FindRequest:
    """The choices of `kafkalog find`.

    `read` has the range, the isolation and the limits. A start that a partition does not have is moved into its log, or
    leaves it out. `first` and `last` limit the matches of each partition; None: all. `before` and `after` are the
    records around each match. `only_counts`: no record is kept. `decoder` decodes the values in which JSON conditions
    look; None: the values are JSON as they are stored.
    """

    conditions: Conditions = field(default_factory=Conditions)
    read: ReadRequest = field(default=ReadRequest())
    first: int | None = None
    last: int | None = None
    before: int = 0
    after: int = 0
    only_counts: bool = False
    decoder: ValueDecoder | None = None

    @property
    def has_context(self) -> bool:
        """Whether records around the matches are wanted."""
        return bool(self.before or self.after)
