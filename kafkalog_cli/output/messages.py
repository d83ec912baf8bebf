"""The messages of a command on stderr, as sentences or as JSON objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.errors import next_step as next_step_of
from kafkalog_cli.output.stream import Colour, ResultStream, paint_of, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_cli.format.fault import Fault
    from kafkalog_cli.ops.call.observer import Note
    from kafkalog_cli.output.ndjson import JsonLines

_NAME = "kafkalog:"


def path_on(host: str | None, path: str) -> str:
    """Return a path as text shows it, as `scp` takes it for another host than this."""
    return path if host is None else f"{host}:{path}"


class Messages:
    """Writes the errors and warnings of a run; names and contents never reach a terminal unescaped."""

    def __init__(self, stream: BinaryIO, *, as_json: bool) -> None:
        self._stream = ResultStream(stream)
        self.is_terminal = self._stream.is_terminal
        self._paint = paint_of(self._stream)
        self._json: JsonLines | None = None
        if as_json:
            from kafkalog_cli.output.ndjson import JsonLines

            self._json = JsonLines(self._stream)

    def error(  # noqa: PLR0913
        self,
        kind: str,
        message: str,
        *,
        path: str | None = None,
        position: int | None = None,
        exit_code: ExitCode | None = None,
        next_step: str = "",
        host: str | None = None,
    ) -> None:
        """Print an error or damage: `kind` is a word for JSON output, `position` the byte of the file concerned.

        `exit_code`: the exit code that this causes. `next_step`: what the user can do. `host`: where the path is.
        """
        if self._json is not None:
            from kafkalog_cli.output.ndjson import Failed

            at = None if position is not None and position < 0 else position  # a damaged index has any number
            self._json.result(Failed(kind, message, path, at, exit_code, None, next_step or None, host))
        else:
            self._text(message, None if path is None else path_on(host, path), position, next_step, self._paint.bad)
        self._stream.flush()

    def damage(
        self, fault: Fault, path: str, position: int | None, *, is_warning: bool, host: str | None = None
    ) -> None:
        """Print damage of the file at `path`. `is_warning`: `verify` calls it a warning, which has another colour."""
        if self._json is None and is_warning:
            self._text(fault.message, path_on(host, path), position, "", self._paint.warning)
            self._stream.flush()
        else:
            self.error(fault.kind.value, fault.message, path=path, position=position, host=host)

    def warn(
        self, kind: str, message: str, *, path: str | None = None, next_step: str = "", host: str | None = None
    ) -> None:
        """Print a warning: a fact that does not end the run. The arguments are those of `error`."""
        if self._json is not None:
            from kafkalog_cli.output.ndjson import Warned

            self._json.result(Warned(kind, message, path, next_step or None, host))
        else:
            self._text(message, None if path is None else path_on(host, path), None, next_step, self._paint.warning)
        self._stream.flush()

    def report(self, *notes: Note) -> None:
        """Print the notes of a session."""
        for note in notes:
            kind, message, path, next_step, is_error, exit_code, host = note
            if is_error:
                self.error(kind, message, path=path, exit_code=exit_code, next_step=next_step, host=host)
            else:
                self.warn(kind, message, path=path, next_step=next_step, host=host)

    def not_read(self, path: str, error: KafkalogError | OSError) -> None:
        """Print the error for which the file or directory at `path` was not read."""
        if isinstance(error, OSError):
            self.error("unreadable", f"cannot be read: {error.strerror or error}", path=path)
        else:
            self.exception(error)

    def _text(self, message: str, path: str | None, position: int | None, next_step: str, colour: Colour) -> None:
        where = "" if path is None else f"{printable(path)}: "
        where += "" if position is None else f"at byte {position}: "
        self._line(f"{where}{printable(message)}", colour)
        self._next(next_step)

    def _line(self, text: str, colour: Colour) -> None:
        line = self._paint.wrapped(f"{_NAME} {text}", indent="  ")
        self._stream.write(f"{self._paint.coloured(line, _NAME, colour)}\n")

    def exception(self, error: KafkalogError) -> None:
        """Print an exception."""
        if self._json is not None:
            self._json.exception(error)
        else:
            self._line(printable(str(error)), self._paint.bad)
            self._next(next_step_of(error))
        self._stream.flush()

    def _next(self, step: str) -> None:
        if step:
            line = self._paint.wrapped(f"  next: {printable(step)}", indent="    ")
            self._stream.write(f"{self._paint.commands(line)}\n")

    def mirrored(self, parts: Iterable[str]) -> None:
        """Print text of the mirrored tool on stderr, in parts; JSON output has no place for it."""
        if self._json is None:
            for part in parts:
                self._stream.write(part)
            self._stream.flush()
