"""Where a command without a session prints: its results on stdout, its messages on stderr."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.ndjson import JsonLines, ObjectKind
from kafkalog_cli.output.progress import Progress, beside
from kafkalog_cli.output.stream import ResultStream

FoundT = TypeVar("FoundT")


class CommandOutput:
    """The output of one run: text on `out`, or objects on `lines` (None: text). `progress` is shown meanwhile."""

    def __init__(self, environment: Environment, *, as_json: bool, progress: Progress | None = None) -> None:
        stdout, stderr = environment.stdout, environment.stderr
        if progress is not None:
            stdout, stderr = beside(progress, stdout), beside(progress, stderr)
        self.out = ResultStream(stdout)
        self.messages = Messages(stderr, as_json=as_json)
        self.lines = JsonLines(self.out) if as_json else None

    def show(self, kind: ObjectKind[Any], found: FoundT, text: Callable[[FoundT], str]) -> None:
        """Print a result: the object that its kind declares, or its `text`, with a line end."""
        if self.lines is not None:
            self.lines.record(kind, found)
        else:
            self.out.write(text(found))

    def fail(self, error: KafkalogError) -> ExitCode:
        """Print an error after the results before it; return its exit code."""
        self.out.flush()
        self.messages.exception(error)
        return error.exit_code

    def end(self, code: ExitCode, **counts: Any) -> ExitCode:
        """Print the summary of JSON output, and flush; return the exit code."""
        if self.lines is not None:
            self.lines.summary(code, **counts)
        self.out.flush()
        return code
