"""The lines of a broker's log that send people to its disk, and the search for the line in a text.

`docs/generate_broker_messages.py` writes docs/broker-messages from this table. A test looks up each text in Kafka's own
classes, and runs each command on a real log directory.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkalog_cli.ops.doctor.broker_message import JAVA, OPERATING_SYSTEM, BrokerMessage, BrokerText
from kafkalog_cli.ops.doctor.messages_at_start import AT_START
from kafkalog_cli.ops.doctor.messages_of_clusters import ABOUT_METADATA, ABOUT_REPLICATION
from kafkalog_cli.ops.doctor.messages_of_disks import ABOUT_DISKS, ABOUT_RETENTION
from kafkalog_cli.ops.doctor.messages_of_files import ABOUT_CHECKPOINTS, ABOUT_INDEXES, ABOUT_SEGMENTS

SECTIONS: tuple[tuple[str, tuple[BrokerMessage, ...]], ...] = (
    ("When the broker starts", AT_START),
    ("Segments", ABOUT_SEGMENTS),
    ("Indexes and snapshots", ABOUT_INDEXES),
    ("Checkpoints", ABOUT_CHECKPOINTS),
    ("The disk", ABOUT_DISKS),
    ("Retention and the cleaner", ABOUT_RETENTION),
    ("Replication", ABOUT_REPLICATION),
    ("Metadata and coordinators", ABOUT_METADATA),
)

MESSAGES: tuple[BrokerMessage, ...] = tuple(message for _, messages in SECTIONS for message in messages)

_CONSEQUENCES = frozenset({"error-loading-log-dir", "log-dir-offline"})
"""Pages of lines that only report what another line's cause led to."""

_LEAST_WORDS = 6
_LEAST_SHARE = 0.75
"""A text of another version must have so many words of Kafka's text, in their order."""

_LEAST_BEGINNING_WORDS = 5
"""The words before the first value of a text that lead to it alone."""

_LEAST_PIECE_WORDS = 2
"""The words of a line that may be a piece of one of Kafka's texts."""

_MOST_WORDS = 120
_MOST_LINES = 20
"""The words of a line, and the lines, that are compared with the texts of other versions."""

_WORD = re.compile(r"[A-Za-z][A-Za-z.'-]*")


class Recognised(NamedTuple):
    """A line of a broker's log that was found in a text. `is_exact` False: only most words are Kafka's."""

    message: BrokerMessage
    text: BrokerText
    line: str
    is_exact: bool = True


def recognised(text: str) -> tuple[Recognised, ...]:
    """Return the lines of a broker's log in a text, each page once: causes before their consequences.

    Errors of the operating system come first. One line alone may be a piece of a text, such as its first words. A line
    that no text of the table fits is compared word by word with all, because other versions of Kafka have other words.
    """
    found: dict[str, tuple[tuple[int, int, int], Recognised]] = {}
    lines = [line for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        for one in _in_line(line):
            rank = _rank(one, number)
            if one.message.slug not in found or rank < found[one.message.slug][0]:
                found[one.message.slug] = rank, one
    if not found:
        begun = tuple(one for line in lines for one in _with_beginning(line))
        if begun:
            return begun[:1]
        pieces = tuple(_with_piece(lines[0].strip())) if len(lines) == 1 else ()
        if pieces:
            return pieces
        likely = max((_likely(line) for line in lines[:_MOST_LINES]), key=lambda one: one[0], default=(0.0, None))[1]
        return () if likely is None else (likely,)
    return tuple(one for _, one in sorted(found.values(), key=lambda pair: pair[0]))


def _rank(one: Recognised, number: int) -> tuple[int, int, int]:
    is_system = one.text.where in (OPERATING_SYSTEM, JAVA)
    level = 0 if is_system else 2 if one.message.slug in _CONSEQUENCES else 1
    return level, number, -len(one.text.text)


def _texts() -> Iterator[tuple[BrokerMessage, BrokerText]]:
    return ((message, text) for message in MESSAGES for text in message.texts)


def _in_line(line: str) -> Iterator[Recognised]:
    for message, text in _texts():
        if _has_parts(line, text.text.strip().split("{}")):
            yield Recognised(message, text, line)


def _with_beginning(line: str) -> Iterator[Recognised]:
    """Yield the texts of which a line has the first sentence, or the words before the first value.

    People copy half of a long line, and other versions of Kafka write values in other ways.
    """
    for message, text in _texts():
        first, _, rest = text.text.partition(". ")
        words = text.text.partition("{}")[0].rstrip(" [('=")
        has_sentence = bool(rest) and len(_WORD.findall(first)) >= _LEAST_WORDS
        if (has_sentence and _has_parts(line, first.split("{}"))) or (
            len(_WORD.findall(words)) >= _LEAST_BEGINNING_WORDS and words in line
        ):
            yield Recognised(message, text, line, is_exact=False)


def _with_piece(line: str) -> Iterator[Recognised]:
    """Yield a page for each message with a text that contains the line, which has two words or more."""
    piece = line.lower()
    if len(_WORD.findall(piece)) < _LEAST_PIECE_WORDS:
        return
    for message in MESSAGES:
        text = next((text for text in message.texts if piece in text.text.lower()), None)
        if text is not None:
            yield Recognised(message, text, line, is_exact=False)


def _has_parts(line: str, parts: Sequence[str]) -> bool:
    """Whether a line has all parts of a text, in their order."""
    at = 0
    for part in parts:
        at = line.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def _likely(line: str) -> tuple[float, Recognised | None]:
    """Return the share of the words of the text that is the most like a line, and the text; None if it is too small."""
    words = _WORD.findall(line)[:_MOST_WORDS]
    best: tuple[float, Recognised | None] = (0.0, None)
    for message, text in _texts():
        wanted = _WORD.findall(text.text.replace("{}", " "))
        if len(wanted) < _LEAST_WORDS:
            continue
        share = _in_order(wanted, words) / len(wanted)
        if share >= _LEAST_SHARE and share > best[0]:
            best = share, Recognised(message, text, line, is_exact=False)
    return best


def _in_order(wanted: Sequence[str], words: Sequence[str]) -> int:
    """Return the number of words of the longest common subsequence."""
    row = [0] * (len(words) + 1)
    for one in wanted:
        before = 0
        for at, word in enumerate(words, 1):
            before, row[at] = row[at], before + 1 if one == word else max(row[at], row[at - 1])
    return row[-1]
