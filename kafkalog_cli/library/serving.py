"""`serve` for Python programs: a read-only broker that runs during a `with` block."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from os import PathLike, fspath
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING

from kafkalog_cli.library.verbs import epoch_ms, path_texts
from kafkalog_cli.library.warning import warn
from kafkalog_cli.ops.selection import Selection
from kafkalog_cli.ops.session.observer import Note
from kafkalog_cli.ops.session.options import Context

if TYPE_CHECKING:
    from kafkalog_cli.library.verbs import Paths
    from kafkalog_cli.ops.serve.serving import ServeOptions


class LogServer:
    """A server of log directories, to be used once, in a `with` block. Its threads have ended after the block.

    `bootstrap` is its address for bootstrap.servers, `old_clients` the address for clients of Kafka 0.7 and 0.8 (None
    without a listener for them). `notes` are its reports so far, such as damage that a fetch met; each
    is a LogWarning at the end of the block.
    """

    def __init__(self, options: ServeOptions) -> None:
        self.bootstrap = ""
        self.old_clients: str | None = None
        self.notes: list[Note] = []
        self._options = options
        self._stack = ExitStack()

    def __enter__(self) -> LogServer:
        from kafkalog_cli.ops.serve.serving import Serving

        with ExitStack() as opened:
            serving = opened.enter_context(Serving(Context(), self._options, self.notes.append))
            thread = Thread(target=serving.run, name="kafkalog-serve", daemon=True)
            opened.callback(thread.join)
            opened.callback(serving.stop)
            thread.start()
            self.bootstrap, self.old_clients = serving.bootstrap, serving.old_clients_address
            self._stack = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._stack.close()
        for note in self.notes:
            warn(note.message, note.path)


def serve(  # noqa: PLR0913
    paths: Paths,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    at: int | datetime | None = None,
    commit_to: str | PathLike[str] | None = None,
    on_damage: str = "stop",
    topics: Sequence[str] = (),
    broker_config: str | PathLike[str] | None = None,
    metadata: str | PathLike[str] | None = None,
    old_clients: int | None = None,
) -> LogServer:
    """Serve log directories to Kafka clients during a `with` block, as `kafkalog serve` does.

    Port 0 takes a free port. `old_clients` is a second port, for clients of Kafka 0.7 and 0.8. `at` serves the logs as
    of a time, in epoch ms or as a datetime. `on_damage` is stop or skip. Entering the block raises NothingSelected,
    UsageError, PathNotFound, NotKafkaLayout, Unreadable, BadInput, and KafkalogError if the port is taken.
    """
    from kafkalog_cli.ops.serve.served_partition import DamageAnswer
    from kafkalog_cli.ops.serve.serving import ServeOptions

    return LogServer(
        ServeOptions(
            path_texts(paths), Selection(frozenset(topics)), host, port,
            None if commit_to is None else fspath(commit_to), DamageAnswer(on_damage), epoch_ms(at),
            None if metadata is None else fspath(metadata), None if broker_config is None else fspath(broker_config),
            old_clients_port=old_clients,
        )
    )  # fmt: skip
