"""Read NDJSON lines into record columns, compiled. Only lines as dump-log prints them; others are left to Python."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import types

from kafkalog_cli.format.kernels.compiled import NDJSON_NAMES as NAMES
from kafkalog_cli.format.kernels.compiled_encode import put_varint
from kafkalog_cli.format.kernels.compiling import BYTES, MATRIX, OUT, entry, kernel
from kafkalog_cli.format.kernels.json_values import (
    CLOSE,
    CLOSE_LIST,
    COLON,
    COMMA,
    NEWLINE,
    ODD,
    OPEN,
    OPEN_LIST,
    QUOTE,
    base64,
    behind,
    behind_blanks,
    behind_char,
    number,
    plain_chars,
    string,
)

_NULL, _TRUE, _FALSE = (NAMES.index(word) for word in (b"null ", b"true ", b"false "))
_UTF_8, _BASE64 = NAMES.index(b'utf-8" '), NAMES.index(b'base64" ')
_RECORD, _BATCH = NAMES.index(b'record" '), NAMES.index(b'batch" ')
_SUMMARY, _PROGRESS = NAMES.index(b'summary" '), NAMES.index(b'progress" ')
_ENCODING, _DATA = NAMES.index(b'encoding" '), NAMES.index(b'data" ')
_KEY, _VALUE = NAMES.index(b'key" '), NAMES.index(b'value" ')
_HEADERS, _TYPE = NAMES.index(b'headers" '), NAMES.index(b'type" ')
_TIMESTAMP, _CONTROL = NAMES.index(b'timestamp_ms" '), NAMES.index(b'control" ')

_FIELDS = (_KEY, _VALUE, _HEADERS, _TYPE, _TIMESTAMP, _CONTROL)
_IS_KEY, _IS_VALUE, _IS_HEADERS, _IS_TYPE, _IS_TIMESTAMP, _IS_CONTROL = range(6)
_CONTENTS = np.int64(1 << _IS_KEY | 1 << _IS_VALUE | 1 << _IS_HEADERS)

_FIRST_PASSED_OVER = NAMES.index(b'schema" ')
_NAMES_END = len(NAMES.rstrip()) + 1
_LEAST_WORD_BYTES = 4
"""No two of these words begin closer together, and all begin within 57 times as many bytes: each has its own bit."""
_OUR_SCHEMAS = NAMES.index(b"kafkalog. ")
_PASSED_OVER = tuple(
    NAMES.index(b" " + word) + 1
    for word in NAMES[_FIRST_PASSED_OVER - 1 :].replace(b" ", b" \n").splitlines()
    if word.strip()
)

_NO_VALUE = np.int64(-1)
_MOST_DIGITS = 18
_LONGEST_SIZE = 5
"""Largest size of the varint of a length, in bytes."""


@kernel
def _behind_name(text, at, names, word):
    """Return the position of the value after the quoted word `word`, a colon and blanks; ODD if the word is another."""
    at = behind_blanks(text, at)
    if text[at] != QUOTE:
        return ODD
    at = behind(text, at + 1, names, word)
    if at < 0:
        return ODD
    return behind_char(text, at, COLON)


@kernel
def _field(text, at, names, out, to):
    """Read null, a string, or an object with encoding and data: return (the position after it or ODD, size or -1)."""
    if text[at] == QUOTE:
        at, end = string(text, at + 1, out, to)
        return at, end - to
    if text[at] != OPEN:
        return behind(text, at, names, _NULL), _NO_VALUE
    at = _behind_name(text, at + 1, names, _ENCODING)
    if at < 0 or text[at] != QUOTE:
        return ODD, _NO_VALUE
    after = behind(text, at + 1, names, _UTF_8)
    is_text = after >= 0
    if not is_text:
        after = behind(text, at + 1, names, _BASE64)
        if after < 0:
            return ODD, _NO_VALUE
    at = behind_char(text, after, COMMA)
    if at < 0:
        return ODD, _NO_VALUE
    at = _behind_name(text, at, names, _DATA)
    if at < 0 or text[at] != QUOTE:
        return ODD, _NO_VALUE
    if is_text:
        at, end = string(text, at + 1, out, to)
    else:
        at, end = base64(text, at + 1, out, to)
    if at < 0:
        return ODD, _NO_VALUE
    at = behind_blanks(text, at)
    if text[at] != CLOSE:
        return ODD, _NO_VALUE
    return np.int64(at + 1), end - to


@kernel
def _sized(text, at, names, out, to):
    """Read a field and write it with its length first, as headers store it.

    Returns (the position after it or ODD, the position in `out`, the size).
    """
    at, size = _field(text, at, names, out, to + _LONGEST_SIZE)
    if at < 0:
        return ODD, to, size
    start = to + _LONGEST_SIZE
    to = put_varint(out, to, size)
    for index in range(size):
        out[to + index] = out[start + index]
    return at, to + max(size, 0), size


@kernel
def _behind_char_and_name(text, at, char, names, word):
    """As `_behind_name`, after the character `char`."""
    at = behind_char(text, at, char)
    return ODD if at < 0 else _behind_name(text, at, names, word)


@kernel
def _headers(text, at, names, out, to):
    """Read a list of headers, or null: return (the position after it or ODD, the position in `out`, their number)."""
    count = np.int64(0)
    if text[at] != OPEN_LIST:
        return behind(text, at, names, _NULL), to, count
    at = behind_blanks(text, at + 1)
    if text[at] == CLOSE_LIST:
        return np.int64(at + 1), to, count
    while True:
        at = _behind_char_and_name(text, at, OPEN, names, _KEY)
        if at < 0:
            return ODD, to, count
        at, to, size = _sized(text, at, names, out, to)
        if at < 0 or size < 0:
            return ODD, to, count
        at = _behind_char_and_name(text, at, COMMA, names, _VALUE)
        if at < 0:
            return ODD, to, count
        at, to, size = _sized(text, at, names, out, to)
        if at < 0:
            return ODD, to, count
        at = behind_char(text, at, CLOSE)
        if at < 0:
            return ODD, to, count
        count += 1
        if text[at] == CLOSE_LIST:
            return np.int64(at + 1), to, count
        if text[at] != COMMA:
            return ODD, to, count
        at += 1


@kernel
def _skipped(text, at, names):
    """Return the position after an ignored value: an ASCII string, an integer or a literal; ODD for any other value."""
    char = text[at]
    if char == QUOTE:
        at += 1
        plain = plain_chars(text, at)
        while plain == 8:
            at += 8
            plain = plain_chars(text, at)
        at += plain
        return np.int64(at + 1) if text[at] == QUOTE else ODD
    if char == 110:
        return behind(text, at, names, _NULL)
    if char == 116:
        return behind(text, at, names, _TRUE)
    if char == 102:
        return behind(text, at, names, _FALSE)
    at, _, _ = number(text, at)
    return at


@kernel
def _kind(text, at, names):
    """Read the type of a line: return (the position after it or ODD, whether the line is a record)."""
    if text[at] != QUOTE:
        return ODD, False
    after = behind(text, at + 1, names, _RECORD)
    if after >= 0:
        return after, True
    after = behind(text, at + 1, names, _BATCH)
    if after < 0:
        after = behind(text, at + 1, names, _SUMMARY)
    if after < 0:
        after = behind(text, at + 1, names, _PROGRESS)
    return after, False


@kernel
def _named(text, at, names, expected):
    """Read the name of a field: return (the position after it or ODD, its number, the name expected next).

    The number is the index in _FIELDS, or larger for a field that appending does not need. Most lines have the latter
    fields in the order of `names`, so the word after the last match is tried first.
    """
    word, after = expected, behind(text, at, names, expected)
    if after < 0:
        char, field = text[at], np.int64(0)
        for candidate in _FIELDS:
            if char == names[candidate]:
                after = behind(text, at, names, candidate)
                if after >= 0:
                    return after, field, expected
            field += 1
        for candidate in _PASSED_OVER:
            if after < 0 and char == names[candidate]:
                word, after = np.int64(candidate), behind(text, at, names, candidate)
        if after < 0:
            return ODD, field, expected
    number_of_word = len(_FIELDS) + (word - _FIRST_PASSED_OVER) // _LEAST_WORD_BYTES
    word += after - at + 1
    return after, number_of_word, word if word < _NAMES_END else np.int64(_FIRST_PASSED_OVER)


@kernel
def _is_ours(text, at, names):
    """Whether the object at a position begins with a schema of kafkalog, as dump-log's objects do."""
    at = behind_blanks(text, at + 1)
    if text[at] != QUOTE:
        return False
    at = behind(text, at + 1, names, np.int64(_FIRST_PASSED_OVER))
    if at >= 0:
        at = behind_char(text, at, COLON)
    return at >= 0 and text[at] == QUOTE and behind(text, at + 1, names, np.int64(_OUR_SCHEMAS)) >= 0


@kernel
def _line(text, at, names, out, to, rows, row):
    """Read the object of one line into the row, whose timestamp stays if the line has none.

    Returns (the position after it or ODD, the position in `out`, whether it is a record).
    """
    is_record, seen, begin, expected = True, np.int64(0), at, np.int64(_FIRST_PASSED_OVER)
    at = behind_blanks(text, at + 1)
    while True:
        if text[at] != QUOTE:
            return ODD, to, False
        at, field, expected = _named(text, at + 1, names, expected)
        if at < 0 or seen >> field & 1:
            return ODD, to, False
        seen |= np.int64(1) << field
        at = behind_char(text, at, COLON)
        if at < 0:
            return ODD, to, False
        if field == _IS_KEY:
            at, size = _field(text, at, names, out, to)
            rows[3, row], rows[4, row] = to, size
            to += max(size, 0)
        elif field == _IS_VALUE:
            at, size = _field(text, at, names, out, to)
            rows[5, row], rows[6, row] = to, size
            to += max(size, 0)
        elif field == _IS_HEADERS:
            rows[7, row] = to
            at, to, rows[8, row] = _headers(text, at, names, out, to)
            rows[11, row] = to - rows[7, row]
        elif field == _IS_TYPE:
            at, is_record = _kind(text, at, names)
        elif field == _IS_TIMESTAMP:
            if text[at] == 110:
                rows[1, row] = -1
                at = behind(text, at, names, _NULL)
            else:
                at, rows[1, row], digits = number(text, at)
                if digits > _MOST_DIGITS or rows[1, row] < -1:
                    return ODD, to, False
        elif field == _IS_CONTROL:
            at = behind(text, at, names, _NULL)
        else:
            at = _skipped(text, at, names)
        if at < 0:
            return ODD, to, False
        at = behind_blanks(text, at)
        if text[at] == CLOSE:
            if not (seen & _CONTENTS if is_record else _is_ours(text, begin, names)):
                return ODD, to, False
            return np.int64(at + 1), to, is_record
        if text[at] != COMMA:
            return ODD, to, False
        at = behind_blanks(text, at + 1)


@entry(BYTES, types.int64, types.int64, BYTES, OUT, MATRIX, types.int64)
def read_lines(text, at, end, names, out, rows, now_ms):
    """Read lines until one is odd: return (its position or `end`, bytes in `out`, rows, lines read).

    `text` ends in a newline at `end`, followed by 8 more bytes. `names` is NDJSON_NAMES. `out` has room for the bytes
    of all fields and 64 more. Reading also stops when `rows` is full.

    `rows` has the 11 columns of RecordColumns, the size of the headers, and the start of the record's bytes in `out`.
    `now_ms` is the timestamp of a record whose line has none.
    """
    to, row, lines, most = np.int64(0), np.int64(0), np.int64(0), np.int64(rows.shape[1])
    while at < end and row < most:
        here = behind_blanks(text, at)
        if text[here] == NEWLINE:
            at = here + 1
            lines += 1
            continue
        if text[here] != OPEN:
            break
        rows[0, row], rows[1, row], rows[2, row] = row, now_ms, -1
        rows[3, row], rows[4, row], rows[5, row], rows[6, row] = to, -1, to, -1
        rows[7, row], rows[8, row], rows[9, row], rows[10, row] = to, 0, -1, 1
        rows[11, row], rows[12, row] = 0, to
        here, after, is_record = _line(text, here, names, out, to, rows, row)
        if here < 0:
            break
        here = behind_blanks(text, here)
        if text[here] != NEWLINE:
            break
        at = here + 1
        lines += 1
        if is_record:
            to = after
            row += 1
    return np.int64(at), np.int64(to), np.int64(row), lines
