"""Prose in Python files and Markdown pages: where it stands, its sentences, and what in it breaks the rules of language.

`prose_rules.py` has the words and phrases, `test_words.py` holds the rules on this repository. Nothing here parses English.
"""

import ast
import io
import keyword
import re
import tokenize
from dataclasses import dataclass

from tests.support.prose_rules import RULES, VERB_FORMS

OWN = ("docstring", "comment")
"""The kinds of texts that readers of the code see; users see the others."""
MOST_WORDS = 28
"""Words in the longest sentence; the rule asks for about 20. A code span is one word."""


@dataclass(frozen=True)
class Text:
    """A piece of prose; `line` is the line of its first character. `kind`: docstring, comment, help, message or page."""

    path: str
    line: int
    kind: str
    words: str

    def line_of(self, position):
        return self.line + self.words.count("\n", 0, position)


@dataclass(frozen=True)
class Broken:
    """A break of a rule."""

    path: str
    line: int
    kind: str
    rule: str
    found: str
    instead: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.found!r}: {self.instead} [{self.rule}]"


def is_help(path, node):
    """Whether a docstring is the help of a command: its function has the name of its module."""
    return path.startswith("kafkalog_cli/cli/") and path.rpartition("/")[2] == f"{getattr(node, 'name', None)}.py"


def docstrings(path, nodes):
    """Yield (constant, text) of docstrings, also of attributes. Docstrings with {fields} are the texts of errors."""
    for node in nodes:
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                kind = "help" if statement is body[0] and is_help(path, node) else "docstring"
                if path.endswith("/errors.py") and "{" in value.value:
                    kind = "message"
                yield value, Text(path, statement.lineno, kind, value.value)


DIRECTIVE = re.compile(r"(?:noqa|type:|mypy:|pragma|ruff:|nosec|fmt:)")
HEADING = re.compile(r"--+ ")


def comments(path, source):
    """Comments; the lines of a block are joined. Directives to tools and headings (`# -- reading`) are not prose."""
    block, last = None, (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        row, column = token.start
        text = token.string.lstrip("#:").strip()
        is_alone = token.line.lstrip().startswith("#")
        if DIRECTIVE.match(text):
            text = text.partition(" - ")[2]
        if HEADING.match(text):
            text = ""
        if block and is_alone and last == (row - 1, column):
            block[1].append(text)
        else:
            if block:
                yield Text(path, block[0], "comment", "\n".join(block[1]))
            block = (row, [text])
        last = (row, column) if is_alone else (0, 0)
    if block:
        yield Text(path, block[0], "comment", "\n".join(block[1]))


def messages(path, nodes, known):
    """Yield string constants of several words, with a code span in place of each value that an f-string inserts."""
    joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    known = known | {id(part) for node in joined for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            words = "".join(part.value if isinstance(part, ast.Constant) else "`x`" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in known:
            words = node.value
        else:
            continue
        if re.search(r"[a-z] [a-z]", words):
            yield Text(path, node.lineno, "message", words)


def nodes_of(source):
    """All nodes of a Python file: walking a tree takes long, so everything here takes the nodes."""
    return list(ast.walk(ast.parse(source)))


def python_texts(path, source, nodes):
    """Yield the docstrings, comments and messages of a Python file; `nodes` are those of `nodes_of`."""
    found = list(docstrings(path, nodes))
    yield from (text for _, text in found)
    yield from comments(path, source)
    yield from messages(path, nodes, {id(constant) for constant, _ in found})


def markdown_texts(path, source):
    """Paragraphs, items, headings and cells of a page; fenced code, HTML comments and rules of tables are left out."""
    fenced, start, lines = False, 0, []
    source = re.sub(r"<!--.*?-->", lambda found: "\n" * found[0].count("\n"), source, flags=re.DOTALL)

    def whole():
        if lines:
            yield Text(path, start, "page", "\n".join(lines))
        lines.clear()

    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("```"):
            yield from whole()
            fenced = not fenced
        elif fenced:
            continue
        elif line.startswith("|"):
            yield from whole()
            yield from (
                Text(path, number, "page", cell.strip()) for cell in re.split(r"(?<!\\)\|", line) if cell.strip(" -:")
            )
        elif not line.strip():
            yield from whole()
        else:
            if re.match(r"\s*(?:[-*#>]|\d+\.)", line):
                yield from whole()
            start = start if lines else number
            lines.append(re.sub(r"^\s*(?:[-*>]|#+|\d+\.)\s+", "", line))
    yield from whole()


SPAN = re.compile(r"``(?:[^`]|(?<!`)`(?!`))+``|`[^`]+`")
END = re.compile(
    r"(?<!e\.g)(?<!i\.e)(?<!vs)(?<! cf)[.?!][\"')\]`]*(?=\s+[A-Z`\"'(\d{\[]|\s*\Z)|\n\s*\n|\n\s*(?=- |\d+\. )"
)


def sentences(text):
    """Yield (position, sentence) of a text; a list item or paragraph ends a sentence."""
    hidden = SPAN.sub(lambda found: "X" * len(found[0]), text)
    begin = 0
    for end in [*(found.end() for found in END.finditer(hidden)), len(text)]:
        sentence = text[begin:end]
        if sentence.strip():
            yield begin + len(sentence) - len(sentence.lstrip()), sentence.strip()
        begin = end


def word_count(sentence):
    """Words; a code span, a link's target and what stands in brackets after a name count as little as they are read."""
    sentence = re.sub(r"\]\([^)]*\)", "]", SPAN.sub(" X ", sentence))
    return sum(any(char.isalnum() for char in word) for word in sentence.split())


def shown(sentence):
    sentence = " ".join(sentence.split())
    return sentence if len(sentence) <= 70 else f"{sentence[:69]}…"


def banned(text):
    """Breaks of RULES in a text; code spans are not prose."""
    hidden = SPAN.sub(lambda found: re.sub(r"[^\n`]", "_", found[0]), text.words)
    hidden = re.sub(
        r"\s*\n\s*", lambda found: found[0] if found[0].count("\n") > 1 else f"{' ' * len(found[0])}", hidden
    )
    # Patterns have one space between words: the others of a line's break and indentation are set aside.
    places = [at for at, char in enumerate(hidden) if char != " " or hidden[at - 1 : at] != " "]
    packed = "".join(hidden[at] for at in places)
    for rule in RULES:
        for found in rule.compiled.finditer(packed):
            line = text.line_of(places[found.start()])
            yield Broken(text.path, line, text.kind, rule.name, found[0], rule.instead)


def too_long(text):
    """Sentences of more than MOST_WORDS; messages are pieces of sentences, and not measured."""
    for position, sentence in sentences(text.words) if text.kind != "message" else ():
        if (count := word_count(sentence)) > MOST_WORDS:
            instead = f"{count} words in a sentence, at most {MOST_WORDS}"
            yield Broken(text.path, text.line_of(position), text.kind, "long", shown(sentence), instead)


def verbless(text):
    """Sentences of a docstring after its first without a verb; the first may be a noun phrase.

    `name`: a phrase` defines a name and needs none, and so does an item of a list.
    """
    for position, sentence in list(sentences(text.words))[1:]:
        if text.kind != "docstring" or re.match(r"`[^`]+`(?: and `[^`]+`)?(?: \S+)?:|- |None:|[A-Z_]+:", sentence):
            continue
        words = re.findall(r"[a-z]+", SPAN.sub("", sentence).lower().replace("n't", ""))
        if words and not VERB_FORMS & set(words):
            yield Broken(text.path, text.line_of(position), text.kind, "verb", shown(sentence), "a sentence has a verb")


PAGE_OR_FILE = re.compile(r"(?<![\w*…-])[\w/.-]*\w\.(?:md|py)\b")
NAMED = re.compile(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`")
SEE = re.compile(r"\bSee ([A-Z]\w*[a-z]\w*)")


@dataclass(frozen=True)
class Known:
    """What prose may name: the paths of files, identifiers of the code, and the values of short strings."""

    paths: frozenset
    names: frozenset
    strings: frozenset

    def has_path(self, path):
        return any(f"/{known}".endswith(f"/{path.lstrip('./')}") for known in self.paths)

    def has_name(self, name):
        return name.rpartition(".")[2] in self.names or name in self.strings or keyword.iskeyword(name)


NAME_OF = {
    ast.Name: "id",
    ast.Attribute: "attr",
    ast.arg: "arg",
    ast.keyword: "arg",
    ast.ClassDef: "name",
    ast.FunctionDef: "name",
    ast.alias: "name",
    ast.ImportFrom: "module",
}


def names_in(nodes):
    """Return the identifiers and the short strings of a file."""
    names, strings = set(), set()
    for node in nodes:
        if type(node) in NAME_OF:
            names.update((getattr(node, NAME_OF[type(node)]) or "").split("."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 80:
            strings.add(node.value)
        elif isinstance(node, ast.arguments):
            names.update(each.arg for each in (node.vararg, node.kwarg) if each)
    names.update(node.asname for node in nodes if isinstance(node, ast.alias) and node.asname)
    return names, strings


def unknown_references(text, known):
    """Pages and files that are not in the repository, and names in backticks that the code does not have."""
    for found in PAGE_OR_FILE.finditer(text.words):
        if not known.has_path(found[0]):
            yield Broken(text.path, text.line_of(found.start()), text.kind, "file", found[0], "no such file here")
    for found in [*NAMED.finditer(text.words), *SEE.finditer(text.words)]:
        if not known.has_name(found[1]) and not PAGE_OR_FILE.fullmatch(found[1]):
            yield Broken(text.path, text.line_of(found.start()), text.kind, "name", found[0], "no such name here")


MEASURE = re.compile(r"(?:^|_)(?:sizes?|times?|timeout|delay|age|length|interval|pause|duration|budget|now|deadline)$")
UNIT = re.compile(
    r"\b(?:bytes?|ms|milliseconds?|s|seconds?|microseconds?|ns|nanoseconds?|entries|records|rows|characters)\b"
)


RETURNED_NUMBERS = ("int", "float", "int | None", "float | None")


def without_unit(path, nodes):
    """Numbers of public functions and fields that are sizes or times, and have a unit neither in name nor docstring."""
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            fields = [(each, each.target.id, each.annotation) for each in node.body if is_field(each)]  # type: ignore[attr-defined]
        elif isinstance(node, ast.FunctionDef):
            arguments = [*node.args.args, *node.args.kwonlyargs]
            fields = [(node, each.arg, each.annotation) for each in arguments]
            is_number = node.returns is not None and ast.unparse(node.returns) in RETURNED_NUMBERS
            fields += [(node, node.name, node.returns)] if is_number and not node.name.endswith("at_a_time") else []
        else:
            continue
        texts = [
            each.value.value
            for each in node.body
            if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
        ]
        if node.name.startswith("_") or UNIT.search(" ".join(map(str, texts))):
            continue
        for at, name, annotation in fields:
            if MEASURE.search(name) and annotation and re.search(r"\b(?:int|float)\b", ast.unparse(annotation)):
                yield Broken(
                    path, at.lineno, "docstring", "unit", f"{node.name}: {name}", "the docstring names the unit"
                )


def is_field(statement):
    return isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)


def breaks(text, known):
    """Yield all breaks of the rules in a text; only the texts of the code are searched for names of the code."""
    yield from banned(text)
    yield from too_long(text)
    yield from verbless(text)
    if text.kind in OWN:
        yield from unknown_references(text, known)
