"""The transactional ids of `__transaction_state`, loaded when they are first needed."""

from collections.abc import Callable, Mapping
from functools import cached_property
from threading import Lock

from kafkalog_cli.format.internal_topics.records import TRANSACTION_STATE
from kafkalog_cli.ops.coordinators import CoordinatorTopic, LogDirs
from kafkalog_cli.ops.session.observer import Note
from kafkalog_cli.ops.tables.coordinator_log import Transaction, transactions


class TransactionalIds:
    """Transactional ids as their coordinator has them after it has loaded the topic. Threads share this object.

    `decoding` is held while records are decoded.
    """

    def __init__(self, log_dirs: LogDirs, report: Callable[[Note], None], decoding: Lock) -> None:
        self._log_dirs = log_dirs
        self._report = report
        self._decoding = decoding

    def by_id(self) -> Mapping[str, Transaction]:
        """Return the ids by name. Raises as `CoordinatorTopic.load`."""
        with self._decoding:
            return self._found

    @cached_property
    def _found(self) -> dict[str, Transaction]:
        topic = CoordinatorTopic(self._log_dirs, TRANSACTION_STATE)
        found: list[Transaction] = []
        for number in topic.numbers:
            found += topic.load(number, transactions)[1]
        for note in self._log_dirs.take_notes():
            self._report(note)
        return {one.transactional_id: one for one in sorted(found, key=lambda one: one.transactional_id)}
