"""Finds a misspelt table or column in the text of a query, before Spark is started: that takes many seconds.

This is not a parser of SQL. It answers only for queries of a simple form, and leaves every other query to Spark. So no
query that Spark takes is refused here.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.scans.schema import STRUCTS, TEXT_COLUMNS
from kafkalog_cli.spark.queries.catalog import Catalog, Reading, SqlView

_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_][A-Za-z0-9_]*)|`(?P<quoted>[^`]+)`|(?P<text>'[^'\\]*')"
    r"|(?P<number>[0-9]+(?:\.[0-9]+)?)(?![A-Za-z0-9_.])|(?P<sign><=>|<=|>=|<>|!=|==|\|\||[-+*/%<>=(),.]))"
)
_NOT_READ = ("--", "/*", "->", "=>", "<<", ">>")
"""Comments, functions without a name, named arguments, and operators of two signs that _TOKEN would take apart."""

_OTHER_FORMS = frozenset(
    """
    with union intersect except minus lateral values table pivot unpivot window transform map reduce using tablesample
    cluster distribute sort stream natural exclude replace qualify identifier declare set inline inline_outer
    """.split()  # noqa: SIM905
)
"""Words of queries that are not read here, because another place may define a name, or hide a column."""

_BEFORE_COLUMN = frozenset("select distinct where and or not by having on when then else case between like".split())  # noqa: SIM905
_AFTER_COLUMN = frozenset(
    "from where and or not is in like between as asc desc group order limit having then when else end nulls".split()  # noqa: SIM905
)
_SIGNS_BEFORE = frozenset("( , + - * / % < <= <=> <> > >= = == != ||".split())  # noqa: SIM905
_SIGNS_AFTER = frozenset(") , + - * / % < <= <=> <> > >= = == != ||".split())  # noqa: SIM905

CLOSE = 0.8
"""How similar a name must be to that of a column to be called misspelt; 1: the same."""

NO_COLUMNS = frozenset(
    """
    directories directory format formatted is key keys leave level modifies name offset partition partitioned partitions
    position rename sequence start timestamp timestamp_ltz timestamp_ntz timestampadd timestampdiff track transaction
    transactions value values
    """.split()  # noqa: SIM905
)
"""Words of Spark that are similar to a column: Spark may take them without a column of that name."""


class _Token(NamedTuple):
    """A word (small letters), a name between backticks, a text, a number, or a sign; "" at both ends of a query."""

    kind: str
    value: str


_END = _Token("", "")


def check_names(text: str, catalog: Catalog, reading: Reading) -> None:
    """Raise UsageError for a table or column of a query that is certainly misspelt. The settings must be Spark's own.

    The message names what is there. Nothing is raised for a query of a form that is not read here.
    """
    tokens = _tokens(text)
    if tokens is None or not _is_simple(tokens):
        return
    views = []
    for at, name in _relations(tokens):
        view = catalog.find(name)
        if view is None:
            raise UsageError(reason=catalog.about(f"`{name}`", (name,)))
        views.append((at, view))
    if len(views) == 1:
        _check_columns(tokens, *views[0], reading._replace(texts=TEXT_COLUMNS))


def _tokens(text: str) -> list[_Token] | None:
    """Return the tokens of a query; None if it has one that is not read here."""
    if any(one in text for one in _NOT_READ):
        return None
    found, at, text = [], 0, text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            return None
        value = match[match.lastgroup]
        found.append(_Token(match.lastgroup, value.lower() if match.lastgroup == "word" else value))
        at = match.end()
    return found


def _is_simple(tokens: Sequence[_Token]) -> bool:
    """Whether the tokens are one `select … from …` without subqueries and without words of other forms."""
    words = [one.value for one in tokens if one.kind == "word"]
    starts = bool(tokens) and tokens[0] == _Token("word", "select")
    has_names_in_parentheses = any(
        one.value == "as" and _at(tokens, at + 1).value == "(" for at, one in enumerate(tokens)
    )
    is_one_select = words.count("select") == words.count("from") == 1
    return starts and is_one_select and not has_names_in_parentheses and _OTHER_FORMS.isdisjoint(words)


def _relations(tokens: Sequence[_Token]) -> Iterator[tuple[int, str]]:
    """Iterate over the names after `from` and `join`, with their places; none if any is not a plain name."""
    depth, found = 0, []
    for at, one in enumerate(tokens):
        depth += (one.value == "(") - (one.value == ")") if one.kind == "sign" else 0
        if one.kind != "word" or one.value not in ("from", "join"):
            continue
        name, after = _at(tokens, at + 1), _at(tokens, at + 2)
        is_plain = name.kind in ("word", "quoted") and after.kind in ("word", "quoted", "")  # not `my-topic`
        if depth or not is_plain or _names_columns(tokens, at + 2) or _at(tokens, at - 1).value == "distinct":
            return
        found.append((at + 1, name.value))
    yield from found


def _names_columns(tokens: Sequence[_Token], at: int) -> bool:
    """Whether an alias with names of columns follows a relation: `orders as o (a, b)`."""
    at += _at(tokens, at).value == "as"
    alias = _at(tokens, at)
    return alias.kind in ("word", "quoted") and alias.value not in _AFTER_COLUMN and _at(tokens, at + 1).value == "("


def _check_columns(tokens: Sequence[_Token], place: int, view: SqlView, reading: Reading) -> None:
    """Raise UsageError for a word that stands only where columns stand, and is similar to a column of the view.

    A word that is also in a text may be a name: functions make columns of a schema in a text.
    """
    columns = view.columns(reading)
    known = {name.casefold() for name in columns} | NO_COLUMNS | STRUCTS.keys()
    places: dict[str, list[int]] = {}
    for at, one in enumerate(tokens):
        if one.kind in ("word", "quoted") and at != place:
            places.setdefault(one.value.casefold(), []).append(at)
    texts = " ".join(one.value for one in tokens if one.kind == "text").casefold()
    for name, found in places.items():
        if name in known or name in texts or not all(_is_of_column(tokens, at) for at in found):
            continue
        similar = similar_columns(name, columns)
        if similar:
            raise UsageError(
                reason=f"there is no column {tokens[found[0]].value} in {view.name}. Did you mean {similar[0]}?"
                f" Columns: {', '.join(columns)}"
            )


def similar_columns(name: str, columns: Sequence[str]) -> list[str]:
    """Return the columns whose names are similar to a name in small letters, the most similar first."""
    by_name = {column.casefold(): column for column in columns}
    return [by_name[one] for one in difflib.get_close_matches(name, by_name, cutoff=CLOSE)]


def _is_of_column(tokens: Sequence[_Token], at: int) -> bool:
    """Whether only a column, or a name that another place of the query defines, can be at this place."""
    before, after = _at(tokens, at - 1), _at(tokens, at + 1)
    follows = before.value in (_BEFORE_COLUMN if before.kind == "word" else _SIGNS_BEFORE)
    ends = after == _END or after.value in (_AFTER_COLUMN if after.kind == "word" else _SIGNS_AFTER)
    return follows and before.kind in ("word", "sign") and ends and after.kind in ("word", "sign", "")


def _at(tokens: Sequence[_Token], at: int) -> _Token:
    return tokens[at] if 0 <= at < len(tokens) else _END
