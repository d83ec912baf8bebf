"""Values of options that are converted without Pydantic are what typer itself makes of them."""

import importlib
import io
import re

import pytest
import typer
from typer.core import TyperOption

from kafkalog_cli.cli.app import COMMANDS, run
from kafkalog_cli.cli.conversions import convert_without_pydantic
from kafkalog_cli.cli.environment import Environment

pytestmark = pytest.mark.skipif(
    not hasattr(TyperOption, "get_runtime_param"), reason="this version of typer converts without Pydantic itself"
)
VALUES = ["", "0", "1", "-1", "007", "1_000", " 5 ", "+3", "\u0663", "1.5", "-1.5", "1e3", "nan", "inf", "2147483648",
          str(2**63), "9" * 40, "9" * 5000, "text", "json", "JSON", "deep", "zstd", "read_committed", "x\udcff", None, 0, 3, 2.5]  # fmt: skip


def commands():
    return {name: typer.main.get_command(importlib.import_module(module).command) for name, module in COMMANDS.items()}


def outcome(param, value, context):
    try:
        found = param.process_value(context, value)
    except Exception as error:
        return type(error), plain(str(error), value)
    return type(found), found


def plain(message, value):
    """Typer's message without Pydantic's words."""
    number = re.fullmatch("Input should be a valid (integer|number).*", message)
    if number and isinstance(value, str):
        return f"{value!r} is not a valid {number[1]}."
    return message.removeprefix("Value error, ")


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


@pytest.mark.parametrize("name", COMMANDS)
def test_each_value_is_what_typer_makes_of_it(name):
    theirs, ours = commands()[name], commands()[name]
    convert_without_pydantic(ours)
    contexts = [typer.Context(command, resilient_parsing=False) for command in (theirs, ours)]
    for their, our in zip(theirs.get_params(contexts[0]), ours.get_params(contexts[1]), strict=True):
        assert type(their.get_runtime_param()) is not type(our.get_runtime_param())
        is_many = our.multiple or our.nargs == -1
        for value in [their.default, *VALUES]:
            given = (value, "1") if is_many and value is not None else value
            their.callback = our.callback = None
            assert outcome(their, given, contexts[0]) == outcome(our, given, contexts[1]), (their.opts, value)
