"""The rules of language: words and phrases that are not used, each with the words to use instead, and the verbs of our sentences.

A rule has examples of wrong and right sentences, which `test_words.py` tries. A pattern that finds right sentences too
often does not belong here.
"""

import re
from dataclasses import dataclass, field


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
        (
            "Damage is reported on stderr.",
            "The inode tells files apart that look alike.",
            "The arguments are those of `tell`.",
        ),
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


VERBS = """
accept add advance agree allow answer appear append apply arrive ask assign assume audit avoid be become begin believe
belong block break bring build call can cannot carry change check choose clean clear close collect combine come commit
compact compare compile complete compress compute concern consist contain continue convert copy correct cost could
count cover create cut decide declare decode decompress decrease delete depend describe deserialize deserve detect
determine differ disagree discard distinguish do drop dump encode end ensure equal erase escape estimate exceed except
exclude exist expand expect explain export extend fail fall fetch fill find finish fit fix flush follow forget free
gather generate get give go grow guess handle happen hash have help hide hold identify ignore import include increase
indent indicate insert iterate join judge keep know lack last lead learn leave let lie limit link list load lock look
lose lower lump make map mark match matter may mean measure merge mirror mislead miss move must name need notice
number occur offer open order override own pack pair parse pass pay pickle place plan point prefetch prepare prevent
print process produce promise protect prove publish put raise reach read rebuild receive recognize record recover
refer refuse register reject release rely remain remember remove rename render repair repeat replace replay report
represent request require reserve reset restore result resume return reuse rewrite roll round run say scan search see
seem select send separate serve set share shorten should show skip sort split spread stand start state stay stop store
stream succeed suffice support suppress swap sync take tell throw treat truncate trust try turn undo unlink update use
validate verify visit wait wake want warn will work would wrap write yield
"""
"""Verbs that our docstrings use; a sentence with another verb fails the test until the verb is here."""
IRREGULAR = """
are became been began begun being built came chose chosen cut did does done drawn found gave given gone grown had has
held is kept knew known lay led left let lies lost made meant met put ran read rebuilt rewrote run said saw seen sent
set shown stood taken thought thrown told took understood was went were written wrote
"""


def forms(verb):
    """The forms of a regular verb."""
    stem = verb[:-1] if verb.endswith("e") else verb
    yield from (
        verb,
        verb + "s",
        verb + "es",
        stem + "ed",
        stem + "ing",
        verb + verb[-1] + "ed",
        verb + verb[-1] + "ing",
    )
    if verb.endswith("y"):
        yield from (verb[:-1] + "ies", verb[:-1] + "ied")


VERB_FORMS = frozenset(IRREGULAR.split()) | {form for verb in VERBS.split() for form in forms(verb)}
