"""`kafkalog retain --free-bytes`: make room on a full disk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkalog_cli.cli.verbs import begin
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.option_values import parse_size_bytes
from kafkalog_cli.ops.retain.free import FreeRequest
from kafkalog_cli.ops.retain.freeing import FREE, Freeing
from kafkalog_cli.output.retain_view import free_view

if TYPE_CHECKING:
    from kafkalog_cli.cli.environment import Environment
    from kafkalog_cli.cli.groups import Printing
    from kafkalog_cli.ops.session.options import SessionOptions


def free(  # noqa: PLR0913, PLR0917
    environment: Environment,
    options: SessionOptions,
    paths: list[str],
    room: tuple[str, str | None, int],
    printing: Printing,
    metrics: str | None,
) -> int:
    """Unlink segments until there is room; return the exit code.

    `room` has the values of --free-bytes, --keep-bytes and --keep-ms.
    """
    wanted_bytes, keep_ms = parse_size_bytes(room[0]), room[2]
    keep_bytes = 0 if room[1] is None else parse_size_bytes(room[1])
    run = begin(environment, FREE, free_view(), options, printing, metrics, only_plans=True)
    session = run.session
    partitions = session.writable_partitions(paths)
    request = session.request(FreeRequest, partitions, keep_bytes=keep_bytes, keep_ms=keep_ms)
    freeing = Freeing(session, request, wanted_bytes, options.dry_run)
    summary = run.run(request, partitions, freeing.add)
    if summary.code is not ExitCode.INTERRUPTED:
        summary = replace(summary, code=freeing.run(summary.codes), failed=summary.failed + len(freeing.failed_paths))
    for freed in freeing.results():
        run.printer.show(freed)
    return run.finish(summary, partitions)
