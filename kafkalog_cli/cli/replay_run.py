"""One run of `kafkalog replay`: turns the options into a request, connects, and prints the outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.disk.fs import read_all
from kafkalog_cli.errors import ClusterError, ExitCode, UsageError, combined_exit_code
from kafkalog_cli.format.java_text import parse_properties
from kafkalog_cli.format.limits import MOST_PROPERTIES_BYTES
from kafkalog_cli.ops.option_values import parse_size_bytes
from kafkalog_cli.ops.read.request import Isolation, ReadRequest
from kafkalog_cli.ops.replay.kafka_cluster import KafkaCluster
from kafkalog_cli.ops.replay.plan import ReplayRequest
from kafkalog_cli.ops.replay.sending import Replay, ReplayedOffset, ReplayedPartition
from kafkalog_cli.ops.session.observer import LockWarnings
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.progress import Progress, beside
from kafkalog_cli.output.replay_view import (
    OFFSET,
    PLANNED,
    REPLAYED,
    offset_line,
    offset_object,
    plan_lines,
    planned_object,
    replayed_line,
    replayed_object,
)
from kafkalog_cli.output.stream import ResultStream

if TYPE_CHECKING:
    from kafkalog_cli.cli.replay import ReplayOptions


def run_replay(environment: Environment, options: ReplayOptions) -> int:
    """Replay, or print the plan; return the exit code. Raises as `Replay`, UsageError and ClusterError."""
    return _Run(environment, options).run()


class _Run:
    def __init__(self, environment: Environment, options: ReplayOptions) -> None:
        self._environment = environment
        self._options = options
        self._progress = Progress(environment.stderr, "replay", as_json=options.is_json, clock=environment.clock)
        self._messages = Messages(beside(self._progress, environment.stderr), as_json=options.is_json)
        self._out = ResultStream(beside(self._progress, environment.stdout))
        self._lines = JsonLines(self._out) if options.is_json else None
        self._codes: list[ExitCode] = []

    def run(self) -> int:
        environment, options = self._environment, self._options
        request = _request(environment, options)
        cluster = KafkaCluster(options.to, _client_settings(environment, options.command_config))
        replay = Replay(environment.context, request, cluster, self._messages.report, self._advance)
        paths = (planned.copy.partition.path for planned in replay.plan.partitions)
        LockWarnings(environment.fs, self._messages.report).about_partitions(*paths)
        for note in replay.notes:
            self._messages.report(note)
        self._codes += replay.codes
        if options.dry_run:
            self._print_plan(replay)
            return self._end(partitions=len(replay.plan.partitions), topics=len(replay.plan.topics))
        self._progress.expect(sum(one.size_bytes for one in replay.plan.partitions))
        return self._send(replay)

    def _send(self, replay: Replay) -> int:
        sent = recognised = offsets = 0
        with self._progress:
            for one in replay.run():
                if isinstance(one, ReplayedPartition):
                    sent, recognised = sent + one.sent, recognised + one.recognised
                    self._codes.append(one.code)
                    if one.error is not None:
                        self._messages.exception(one.error)
                elif isinstance(one, ClusterError):
                    self._codes.append(one.exit_code)
                    self._messages.exception(one)
                else:
                    offsets += 1
                self._print(one)
        return self._end(partitions=len(replay.plan.partitions), sent=sent, recognised=recognised, offsets=offsets)

    def _print(self, one: object) -> None:
        lines = self._lines
        if isinstance(one, ClusterError):
            return
        if isinstance(one, ReplayedPartition):
            if lines is None:
                self._out.write(f"{replayed_line(one)}\n")
            else:
                lines.object(REPLAYED, replayed_object(one))
        elif isinstance(one, ReplayedOffset):
            if lines is None:
                self._out.write(f"{offset_line(one)}\n")
            else:
                lines.object(OFFSET, offset_object(one))
        self._out.flush()

    def _print_plan(self, replay: Replay) -> None:
        if self._lines is None:
            for line in plan_lines(replay.plan, None if replay.groups is None else replay.groups.count):
                self._out.write(f"{line}\n")
        else:
            for one in replay.plan.partitions:
                self._lines.object(PLANNED, planned_object(one))

    def _end(self, **counts: int) -> int:
        code = combined_exit_code(self._codes)
        if self._lines is not None:
            self._lines.summary(code, **counts)
        self._out.flush()
        return code

    def _advance(self, path: str, size_bytes: int) -> None:
        self._progress.advance(size_bytes, path)


def _request(environment: Environment, options: ReplayOptions) -> ReplayRequest:
    bounds = options.range.bounds(environment, options.now, "replay")
    read = ReadRequest(*bounds, isolation=Isolation(options.isolation.value))
    renames = dict(map(_rename, options.rename or ()))
    return ReplayRequest(
        options.paths, options.state, options.topics.selection, read, renames,
        options.create, options.groups, options.metadata,
        None if options.bytes_per_s is None else parse_size_bytes(options.bytes_per_s),
    )  # fmt: skip


def _rename(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals:
        raise UsageError(reason=f"--rename {text}: OLD=NEW")
    return old, new


def _client_settings(environment: Environment, path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        return parse_properties(read_all(environment.fs, path, MOST_PROPERTIES_BYTES))
    except ValueError as error:
        raise UsageError(reason=f"--command-config {path}: {error}") from error
