"""What the plain parser makes of a command line is what typer makes of it; mistakes are typer's, in our words."""

import io
import random

import pytest

from kafkalog_cli.cli import typer_parser
from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.commands import COMMANDS, command_of
from kafkalog_cli.cli.declared import REQUIRED, Answered, Command
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.plain_parser import NotPlainError, plain_call
from kafkalog_cli.errors import KafkalogError

LINES = 150
VALUES = ["", "0", "1", "-1", "007", "1_000", " 5 ", "+3", "\u0663", "1.5", "-1.5", "1e3", "nan", "2147483648", "-",
          str(2**63), "9" * 40, "text", "json", "deep", "zstd", "read_committed", "x\udcff", "--", "-v", "-15m", "a=b"]  # fmt: skip


def words_for(command, rng):
    """The words of a command line: mostly options that there are, with values that may be wrong."""
    options = [one for one in command.parameters if not one.declaration.is_argument]
    words = []
    required = [one for one in options if one.default is REQUIRED]
    for option in [*rng.choices(options, k=rng.randrange(5)), *(required if rng.random() < 0.9 else ())]:
        name = rng.choice(option.option_names)
        if option.kinds[0] is bool:
            words.append(name if rng.random() < 0.9 else f"{name}=1")
            continue
        members = list(option.kinds[0]) if hasattr(option.kinds[0], "__members__") else []
        plain = [str(one.value) for one in members] or [str(option.declaration.min or 7), "1"]
        value = rng.choice(plain if rng.random() < 0.8 else VALUES)
        words += [f"{name}={value}"] if rng.random() < 0.4 else [name, value]
    wanted = len(command.parameters) - len(options)
    for _ in range(wanted if rng.random() < 0.8 else rng.randrange(4)):
        words.insert(rng.randrange(len(words) + 1), "3" if rng.random() < 0.8 else rng.choice(VALUES))
    return words


def outcome(parse):
    """The values of a command line with their types, or why there are none."""
    errors = io.BytesIO()
    environment = Environment(stdout=io.BytesIO(), stderr=errors)
    try:
        context = parse(environment)
    except (Answered, KafkalogError, NotPlainError) as error:
        return type(error), str(error)
    values = {
        name: (value or None, type(value or None)) for name, value in context.values.items()
    }  # [] and () are None
    return values, set(context.typed), errors.getvalue()


@pytest.fixture
def called(monkeypatch):
    """The contexts of commands that were called, in place of calling them."""
    found = []
    monkeypatch.setattr(Command, "call", lambda _, context: found.append(context) or 0)
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("variables", [{}, {"JOBS": "3", "FORMAT": "json", "LEVEL": "deep", "MAX_RATIO": "9"}])
def test_a_plain_command_line_is_what_typer_makes_of_it(name, variables, called, monkeypatch):
    command, rng, plain = command_of(name), random.Random(name), 0
    for variable, value in variables.items():
        monkeypatch.setenv(f"KAFKALOG_{variable}", value)

    def by_typer(environment):
        called.clear()
        assert typer_parser.call([name, *words], environment) == 0, words
        return called[0]

    def by_ourselves(environment):
        return plain_call(name, command, words, environment)

    for _ in range(LINES):
        words = words_for(command, rng)
        ours = outcome(by_ourselves)
        if ours[0] is not NotPlainError:
            plain += 1
            assert ours == outcome(by_typer), words
    assert plain > LINES // 10, "most lines were left to typer"


def test_the_words_of_pydantic_are_not_printed():
    """Whatever typer prints of an option that has no such value, or is no number."""
    for words, told in (
        (["ls", ".", "--format", "xml"], "'--format': 'xml' is not one of 'text', 'json', 'ndjson'\n"),
        (["verify", ".", "--level", "all"], "'--level': 'all' is not one of 'quick', 'normal', 'deep'\n"),
        (["purge", ".", "--jobs", "many"], "'--jobs': 'many' is not a valid integer\n"),
    ):
        out, err = io.BytesIO(), io.BytesIO()
        assert run(words, Environment(stdout=out, stderr=err)) == 2
        assert told in err.getvalue().decode(), err.getvalue()
        assert b"Value error" not in err.getvalue()
        assert b"Input should" not in err.getvalue()
