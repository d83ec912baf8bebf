"""One call of a command: its disk, its output and progress, the damage that it meets, and its exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from typer import Context

from kafkalog_cli.cli.options import OutputFormat
from kafkalog_cli.errors import ExitCode, KafkalogError, combined_exit_code
from kafkalog_cli.ops.call.observer import LockWarnings
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.progress import Progress, beside
from kafkalog_cli.output.stream import ResultStream, Undisturbed

if TYPE_CHECKING:
    from kafkalog_cli.cli.environment import Environment
    from kafkalog_cli.format.fault import Fault
    from kafkalog_cli.format.values.decoder import ValueDecoder
    from kafkalog_cli.log.partition import Partition
    from kafkalog_cli.ops.call.observer import Note
    from kafkalog_cli.ops.call.options import Context as CallContext
    from kafkalog_cli.ops.decoding import Decoding
    from kafkalog_cli.ops.selection import Selection
    from kafkalog_cli.ops.values import UndecodedCounts

ResultT = TypeVar("ResultT")


class Run:
    """Prints results on `out` as text, or as objects on `lines` (None: text), and messages on stderr.

    `codes` has the exit code of each partition or path; `end` returns the exit code of all. `outlives_reader`: the
    command changes logs, and continues if nobody reads its output any more; `end` raises the error.
    """

    def __init__(self, context: Context, output: OutputFormat, *, outlives_reader: bool = False) -> None:
        environment: Environment = context.obj
        stdout, stderr = environment.stdout, environment.stderr
        self._undisturbed = Undisturbed(stdout) if outlives_reader else None
        if self._undisturbed is not None:
            stdout, stderr = cast("BinaryIO", self._undisturbed), cast("BinaryIO", Undisturbed(stderr))
        self.context, self.environment = context, environment
        self.fs = environment.fs
        self.as_json = output != "text"
        self.codes: list[ExitCode] = []
        self.progress = context.with_resource(
            Progress(stderr, str(context.info_name), as_json=self.as_json, clock=environment.clock)
        )
        self.out = ResultStream(beside(self.progress, stdout))
        self.messages = Messages(beside(self.progress, stderr), as_json=self.as_json)
        self.lines = None
        if self.as_json:
            from kafkalog_cli.output.ndjson import JsonLines

            self.lines = JsonLines(self.out)
        self.lock_warnings = LockWarnings(self.fs, self.messages.report)

    # -- what is read

    @property
    def call_context(self) -> CallContext:
        """The disk and the clocks for a call of a verb."""
        return replace(self.environment.context, fs=self.fs)

    @property
    def shows_progress_beside_results(self) -> bool:
        """Whether there is progress of a command that prints while it reads.

        Results on a terminal, and objects of JSON output, show themselves where the command is.
        """
        return self.progress.is_shown and not self.as_json and not self.out.is_terminal

    def show_reads(self, *, prints_while_reading: bool = False) -> None:
        """Show all reads as progress, of unknown total.

        `prints_while_reading`: see `shows_progress_beside_results`.
        """
        if self.shows_progress_beside_results if prints_while_reading else self.progress.is_shown:
            from kafkalog_cli.disk.metered_fs import MeteredFilesystem

            self.fs = MeteredFilesystem(self.fs, self.progress.read)

    def directories_of(self, paths: Sequence[str]) -> list[str]:
        """Return the directories in which the segment files in `paths` are partitions of one segment.

        Raises as `directories_of`.
        """
        from kafkalog_cli.ops.single_files import directories_of

        self.fs, directories = directories_of(self.fs, paths)
        return directories

    def select_served(self, paths: Sequence[str], selection: Selection) -> list[Partition]:
        """Return the partitions that a broker would serve, also single segment files; warn of locked log directories.

        Raises as `select_served`.
        """
        from kafkalog_cli.ops.selection import select_served

        directories = self.directories_of(paths)
        partitions = select_served(self.fs, directories, selection)
        self.lock_warnings.about_partitions(*(partition.path for partition in partitions))
        return partitions

    def decoder_of(self, decoding: Decoding, partitions: Sequence[str]) -> ValueDecoder | None:
        """Read the schemas for the partitions with these paths, and report what is wrong with them.

        Return None if nothing is decoded. Raises PathNotFound, OSError.
        """
        decoder, notes = decoding.decoder(self.fs, partitions)
        self.messages.report(*notes)
        return decoder

    # -- what is printed

    def show(self, result: ResultT, text: Callable[[ResultT], str]) -> None:
        """Print a result: its object, or its `text`, with a line end."""
        if self.lines is not None:
            self.lines.result(result)
        else:
            self.out.write(text(result))

    def write_lines(self, lines: Iterable[str]) -> None:
        """Print lines of text."""
        for line in lines:
            self.out.write(f"{line}\n")

    def damage(self, partition: Partition, path: str, fault: Fault, host: str | None = None) -> None:
        """Report a damaged place of a segment file, whose records are left out."""
        from kafkalog_cli.ops.damage import is_torn_tail

        self.out.flush()
        is_warning = is_torn_tail(partition, path, fault)
        self.messages.damage(fault, path, fault.position, is_warning=is_warning, host=host)

    def warn(self, kind: str, message: str, path: str | None = None) -> None:
        """Print a warning after the results before it."""
        self.out.flush()
        self.messages.warn(kind, message, path=path)

    def report_undecoded(self, undecoded: UndecodedCounts, path: str) -> bool:
        """Report the keys and values of a partition that were not decoded so far; return whether there are any."""
        failures = undecoded.failures()
        for failure in failures:
            self.warn("undecoded", failure.message, path)
        return bool(failures)

    def not_read(self, path: str, error: KafkalogError | OSError) -> None:
        """Report the error for which the file or directory at `path` was not read."""
        self.out.flush()
        self.messages.not_read(path, error)

    def fail(self, error: KafkalogError | OSError, path: str = "") -> None:
        """Report the error that ends the work on one path, and continue with the others."""
        self.not_read(path, error)
        self.codes.append(error.exit_code if isinstance(error, KafkalogError) else ExitCode.FAILURE)

    def end(self, notes: Iterable[Note] = (), /, **counts: Any) -> int:
        """Print the summary of JSON output, then the notes on the whole run; return the exit code of all."""
        code = combined_exit_code(self.codes)
        if self.lines is not None:
            self.lines.summary(code, **counts)
        self.out.flush()
        self.messages.report(*notes)
        if self._undisturbed is not None:
            self._undisturbed.end()
        return int(code)
