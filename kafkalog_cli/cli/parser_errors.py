"""The errors of the option parser in our words, with a suggestion for a misspelt option."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.errors import did_you_mean


def parser_words(error: Any) -> tuple[str, str]:
    """Return the message and the next step of an error that the option parser has raised."""
    context = getattr(error, "ctx", None)
    command = None if context is None else context.command
    step = f"{context.command_path} --help" if context is not None else "kafkalog --help"
    option = getattr(error, "option_name", None)
    if option is not None and hasattr(error, "possibilities"):
        known = [name for param in command.params for name in (*param.opts, *param.secondary_opts)] if command else []
        question = did_you_mean(option, [name for name in known if name.startswith("--")])
        return f"there is no option {option}{question and f'. {question}'}", step
    text = str(error.format_message()).replace("Value error, ", "").rstrip(".")
    return text[:1].lower() + text[1:], step
