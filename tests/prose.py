"""Prose in Python files and Markdown pages: where it stands, its sentences, and what in it breaks the rules of language.

`test_words.py` holds the rules on this repository. A rule is a pattern with the text to use instead; it has examples of
wrong and right sentences, which a test tries. Nothing here parses English: a pattern that finds right sentences too often
does not belong here.
"""

import ast
import io
import re
import tokenize
from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class Rule:
    """A word or phrase that is not used. `wrong` and `right` are sentences that show the rule."""

    name: str
    pattern: str
    instead: str
    wrong: tuple
    right: tuple = ()
    compiled: re.Pattern = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "compiled", re.compile(self.pattern))


NOUN = r"(?:partition|batch|record|line|segment|file|task|topic|key|command|worker|offset|row|run|byte|block|page|column|message|producer|test|verb|log|index|entry)"

RULES = (
    # words that have a standard one
    Rule(
        "anew",
        r"\banew\b",
        "say rebuild, write again, start again",
        ("made anew from the log",),
        ("rebuilt from the log",),
    ),
    Rule(
        "behind",
        r"\bbehind\b(?! (?:a|an|the) (?:\w+ )?(?:reader|replica|leader|exception|import)|`| `)",
        "say after",
        ("Go on behind damage.", "valid batches behind the tail"),
        ("The library behind `import kafkalog_cli`.", "valid batches after the tail"),
    ),
    Rule(
        "tell",
        r"(?<!`)\b(?:[Tt]ells?|[Tt]old)\b(?!`)(?! (?:\w+ )?apart)",
        "say report, print, state, show",
        ("What is damaged is told on stderr.", "It tells of damage."),
        ("Damage is reported on stderr.", "The inode tells files apart that look alike.", "The arguments are those of `tell`."),
    ),
    Rule(
        "gone through",
        r"\b(?:goes|go|gone|going|went) through (?!`)(?:the|a|all|each|every|it|them|once)\b",
        "say read, pass, visit",
        ("How often a log is gone through once.",),
        ("Every access goes through `fs`.",),
    ),
    Rule(
        "goes",
        r"\b(?:[Ww]hat|records?|batch|batches|segments?|marker|files?|bytes?|oldest|it|they) (?:goes|go|would go|may go|is gone|are gone)(?: (?:whole|too|away|in time|first))?(?=[.,:;)]|$)",
        "say remove, cut, delete",
        ("The marker goes too: the next broker recovers.", "until that segment goes."),
        ("The marker is removed too.", "Records go to one partition."),
    ),
    Rule(
        "what goes",
        r"\b[Ww]hat goes\b|\bgoes whole\b|\bwhat can go\b",
        "say what is removed",
        ("What goes is kept for undo.", "A batch that the offset lies in goes whole."),
        ("Removed segments are kept for undo.",),
    ),
    Rule(
        "no whole",
        r"\bno whole\b",
        "say incomplete",
        ("141 bytes that are no whole batch",),
        ("the last 141 bytes are an incomplete batch",),
    ),
    Rule(
        "is no",
        r"(?<!here )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|better\b|worse\b|different\b|\w+(?: \w+)? (?:here|there|left)\b)\w+",
        "say is not a, are not",
        ("For a name that is no view, Spark makes a directory.", "it is no partition of a topic's"),
        ("For a name that is not a view, Spark makes a directory.", "There is no view.", "It is no longer valid."),
    ),
    Rule(
        "a ... a ...",
        rf"\b(?:[Aa]n?|[Oo]ne) {NOUN}s?,? an? {NOUN}\b(?! (?:of|that|has|had|is|was)\b)",
        "say per",
        ("a line a partition", "a task a partition, here or on a cluster"),
        ("a line per partition", "a record of a batch", "one batch at a time"),
    ),
    Rule(
        "for people",
        r"\b[Ff]or (?:people|programs)\b",
        "say text output, JSON output, or what is meant",
        ("a line for people, an object for programs",),
        ("a line as text, an object as JSON",),
    ),
    Rule(
        "left alone",
        r"\bleft alone\b",
        "say skipped, unchanged",
        ("left alone: a broker uses it",),
        ("skipped: a broker uses it",),
    ),
    Rule(
        "not looked at",
        r"\blooked at\b",
        "say checked, read",
        ("not looked at: decompression",),
        ("not checked: decompression",),
    ),
    Rule(
        "became of",
        r"\b(?:became|becomes?) of\b",
        "say outcome, result",
        ("What became of one partition.",),
        ("The outcome for one partition.",),
    ),
    Rule(
        "any more",
        r"\bany ?more\b",
        "say no longer",
        ("records that are not here any more",),
        ("records that are no longer here",),
    ),
    Rule(
        "all the same",
        r"\ball the same\b",
        "say still, nevertheless, or leave it out",
        ("The records are right all the same.",),
        ("The records are still right.",),
    ),
    Rule(
        "taken for",
        r"\b(?:[Tt]akes?|taken|took) (?:it|them|this|that|these) (?:away|back|for)\b|\b(?:taken|takes?|took) away\b",
        "say remove, restore, treat as",
        ("What is taken away is kept.", "A broker takes it for a batch."),
        ("What is removed is kept.", "A broker treats it as a batch."),
    ),
    Rule(
        "but for",
        r"\bbut for\b",
        "say except",
        ("A follower trusts its leader, but for these.",),
        ("A follower trusts its leader, except for these.",),
    ),
    Rule(
        "say",
        r"(?:\A|(?<=[.:;,] )|(?<=and ))[Ss]ay (?:of|what|how|why|so)\b",
        "say report, print, explain",
        ("Say of each segment why it stays.", "leave out what cannot be read and say so"),
        ("Print why each segment is kept.", "The remark says why."),
    ),
    # pronouns without a noun
    Rule(
        "one",
        r"(?<!one by )(?<!there is )\b(?:as|for|from|to|with|than|like|before|after|the|that|this|other|another|new|old|no|such|plain) one\b"
        r"(?=[.,;:)]|$| (?:that|which|whose|after|before|where|with|is|was|has)\b)",
        "repeat the noun",
        ("an error told as one after which files are missing", "the bytes before the new one."),
        ("They are read one by one.", "the fault, if there is one.", "one of its names", "more than one hundred"),
    ),
    Rule(
        "ones",
        r"\bones\b",
        "repeat the noun",
        ("small ones share a task",),
        ("small partitions share a task",),
    ),
    Rule(
        "that which",
        r"\b(?:[Tt]hat|[Tt]hose) which\b",
        "name the thing",
        ("that which was cut is kept",),
        ("the cut bytes are kept",),
    ),
    Rule(
        "those who",
        r"\b[Tt]hose(?=[.,;:)]| (?:that|whose|who|after|before|at|in|on|from|for|by|with|without)\b)",
        "name the thing",
        ("Yield those that are due.", "Partitions without those in the log directory."),
        ("Yield the runs that are due.", "The offsets are those of the input.", "Those segments stay."),
    ),
    Rule(
        "What",
        r"(?:\A|(?<=[.:;] ))What\b(?! is a\b)[^?]*?(?=[.:;]|\Z)(?!\?)",
        "begin with a noun or an imperative",
        ("What became known.", "What the installed command calls: run it."),
        ("The facts about a partition.", "Return what was read."),
    ),
    Rule(
        "clock says",
        r"\bwhat the \w+ says?\b",
        "name the thing",
        ("Take this for now, not what the clock says.",),
        ("Use this as the current time.",),
    ),
    Rule(
        "so many",
        r"\b(?:about|of|at) so (?:many|much)\b",
        "name the number",
        ("At most about so many offsets.",),
        ("At most about `most` offsets.", "The log has so many marks that gaps are likely."),
    ),
    Rule(
        "as large a part",
        r"\bas \w+ an? \w+ as\b",
        "say in proportion to, equal",
        ("of each partition as large a part as of the others",),
        ("in proportion to each partition's backlog",),
    ),
)


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


def python_texts(path, source):
    nodes = list(ast.walk(ast.parse(source)))
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
            yield from (Text(path, number, "page", cell.strip()) for cell in re.split(r"(?<!\\)\|", line) if cell.strip(" -:"))
        elif not line.strip():
            yield from whole()
        else:
            if re.match(r"\s*(?:[-*#>]|\d+\.)", line):
                yield from whole()
            start = start if lines else number
            lines.append(re.sub(r"^\s*(?:[-*>]|#+|\d+\.)\s+", "", line))
    yield from whole()


SPAN = re.compile(r"``[^`]+``|`[^`]+`")
END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!vs)(?<! cf)[.?!][\"')\]`]*(?=\s+[A-Z`\"'(\d{\[]|\s*\Z)|\n\s*\n|\n\s*(?=- )")


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
    hidden = re.sub(r"\s*\n\s*", lambda found: found[0] if found[0].count("\n") > 1 else f"{' ' * len(found[0])}", hidden)
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


VERBS = """
accept add advance agree allow answer append apply appear arrive ask assign assume audit avoid be become begin believe belong block
break bring build call can cannot carry change check choose clean clear close collect combine come commit compact compare compile
complete compress compute concern consist contain continue convert copy correct cost could count cover create cut decide declare decode decompress
decrease delete depend describe detect deserve deserialize determine differ disagree discard distinguish do drop dump encode end ensure equal erase escape
estimate exceed except exclude exist expand expect explain export extend fail fall fetch fill find finish fit fix flush follow forget free gather generate
get give go grow guess handle happen hash have help hide hold identify ignore import include increase indent indicate insert iterate join
judge keep know lack last lead learn leave let lie limit link list load lock look lose lower lump make map mark match matter may mean measure merge mirror mislead miss
move must name need notice number occur offer open order override own pack pair parse pass pay pickle place plan point prefetch prepare prevent print process
produce promise protect prove publish put raise reach read rebuild receive recognize record recover refer refuse register reject release rely remain remember remove rename render
repair repeat replace replay report represent request require reserve reset restore result resume return reuse rewrite roll round run say scan search see seem select send separate
serve set share shorten should show skip sort split spread stand start state stay stop store stream succeed suffice support suppress swap sync take tell throw treat trust truncate try turn
undo unlink update use validate verify visit wait wake want warn will work would wrap write yield
""".split()
IRREGULAR = """
is are was were been being has had does did done made ran run kept held left lost found came gone went given gave took taken wrote written read said
saw seen knew known began begun chose chosen built sent meant met led put set cut let shown drawn grown thrown understood stood lay lies thought told
""".split()


def forms(verb):
    """The forms of a regular verb."""
    stem = verb[:-1] if verb.endswith("e") else verb
    yield from (verb, verb + "s", verb + "es", stem + "ed", stem + "ing", verb + verb[-1] + "ed", verb + verb[-1] + "ing")
    if verb.endswith("y"):
        yield from (verb[:-1] + "ies", verb[:-1] + "ied")


VERB_FORMS = frozenset(IRREGULAR) | {form for verb in VERBS for form in forms(verb)}


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


PAGE_OR_FILE = re.compile(r"(?<![\w*-])[\w/.-]*\w\.(?:md|py)\b")
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
        return name.rpartition(".")[2] in self.names or name in self.strings


def known_names(paths, sources):
    """Return what texts about `sources`, the texts of Python files by path, may name."""
    names, strings = set(), set()
    for path, source in sources.items():
        names |= set(re.split(r"[/.]", path))
        for node in ast.walk(ast.parse(source)):
            names |= {getattr(node, key) for key in ("id", "attr", "arg", "name") if isinstance(getattr(node, key, None), str)}
            if isinstance(node, ast.alias):
                names |= set(node.name.split(".")) | {node.asname}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 80:
                strings.add(node.value)
    return Known(frozenset(paths), frozenset(names), frozenset(strings))


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


def without_unit(path, source):
    """Numbers of public functions and fields that are sizes or times, and have a unit neither in name nor docstring."""

    def is_number(annotation):
        return annotation is not None and re.search(r"\b(?:int|float)\b", ast.unparse(annotation))

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            fields = [(each, each.target.id, each.annotation) for each in node.body if is_field(each)]
        elif isinstance(node, ast.FunctionDef):
            arguments = [*node.args.args, *node.args.kwonlyargs]
            fields = [(node, each.arg, each.annotation) for each in arguments]
            fields.append((node, "" if node.name.endswith("at_a_time") else node.name, node.returns))
        else:
            continue
        texts = [each.value.value for each in node.body if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)]
        if node.name.startswith("_") or UNIT.search(" ".join(map(str, texts))):
            continue
        for at, name, annotation in fields:
            if MEASURE.search(name) and is_number(annotation):
                yield Broken(path, at.lineno, "docstring", "unit", f"{node.name}: {name}", "the docstring names the unit")


def is_field(statement):
    return isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
