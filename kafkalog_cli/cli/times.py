"""The times of options in epoch ms; an integer that seems to have another unit is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkalog_cli.errors import UsageError, as_typed

if TYPE_CHECKING:
    from kafkalog_cli.cli.environment import Environment


def time_of(environment: Environment, text: str, now: str | None) -> int:
    """Return a time option in epoch ms; warn if an integer seems to have another unit. Raises UsageError."""
    from kafkalog_cli.ops.option_values import parse_time_ms

    clock_ms = environment.now_ms() if now is None else now_of(environment, now)
    reading = _other_reading(text, environment.argv)
    if reading is not None:
        from kafkalog_cli.output.messages import Messages

        Messages(environment.stderr, as_json=environment.wants_json).warn("time-unit", reading)
    return parse_time_ms(text, clock_ms)


def now_of(environment: Environment, text: str) -> int:
    """Return the time of --now in epoch ms. Raises UsageError, also for an integer that seems to have another unit.

    A wrong unit is an error here: by a clock of the year 55000 every record is old.
    """
    from kafkalog_cli.ops.option_values import parse_time_ms

    reading = _other_reading(text, environment.argv)
    if reading is not None:
        raise UsageError(reason=f"--now: {reading}")
    return parse_time_ms(text, environment.now_ms())


def _other_reading(text: str, argv: Sequence[str]) -> str | None:
    """Return a message with an integer's time in ms and its probable meaning; None if no other unit is probable."""
    from kafkalog_cli.ops.option_values import as_if_milliseconds
    from kafkalog_cli.output.human import iso_time

    found = as_if_milliseconds(text)
    if found is None:
        return None
    number, unit, meant_ms = found
    time = iso_time(number)
    when = "a time after the year 9999" if time == str(number) else time
    return (
        f"{text} is taken as milliseconds since 1970, which is {when}. It seems to be {unit}, which is"
        f" {iso_time(meant_ms)}: {_again(argv, text, meant_ms)}"
    )


def _again(argv: Sequence[str], text: str, meant_ms: int) -> str:
    """Return what to write: the command line with the time in milliseconds, or that time alone."""
    words = [_replaced(word, text, str(meant_ms)) for word in argv]
    if words == [*argv]:
        return f"write {meant_ms}"
    return f"`{' '.join(map(as_typed, ['kafkalog', *words]))}`"


def _replaced(word: str, text: str, instead: str) -> str:
    option, equals, value = word.partition("=")
    if word == text:
        return instead
    return f"{option}={instead}" if equals and option.startswith("--") and value == text else word
