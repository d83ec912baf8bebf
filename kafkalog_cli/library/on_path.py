"""The verbs as methods on a path."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import TYPE_CHECKING, Any

from kafkalog_cli.library.finding import FoundRecord, find
from kafkalog_cli.library.measuring import inspect, stats
from kafkalog_cli.library.replaying import replay
from kafkalog_cli.library.serving import LogServer, serve
from kafkalog_cli.library.verbs import (
    Run,
    cluster,
    compact,
    delete_records,
    doctor,
    group_history,
    groups,
    metadump,
    purge,
    recover,
    retain,
    roll,
    transactions,
    truncate,
    undo,
    verify,
)

if TYPE_CHECKING:
    from kafkalog_cli.ops.cluster.describe import ClusterDescription
    from kafkalog_cli.ops.compact.plan import CompactPlan
    from kafkalog_cli.ops.delete_records import DeleteRecordsPlan
    from kafkalog_cli.ops.doctor.examination import Examination
    from kafkalog_cli.ops.groups.describe import GroupDescription
    from kafkalog_cli.ops.groups.history import OffsetChange
    from kafkalog_cli.ops.inspect.inspecting import InspectedPartition
    from kafkalog_cli.ops.metadump.copying import Metadump
    from kafkalog_cli.ops.open_transactions import OpenInLog, TransactionalId
    from kafkalog_cli.ops.purge import PurgePlan
    from kafkalog_cli.ops.recover.verb import Recovered
    from kafkalog_cli.ops.replay.sending import ReplayedPartition
    from kafkalog_cli.ops.replay.translation import ReplayedOffset
    from kafkalog_cli.ops.retain.plan import RetainPlan
    from kafkalog_cli.ops.roll import RollPlan
    from kafkalog_cli.ops.session.work import Changed
    from kafkalog_cli.ops.stats.measuring import MeasuredPartition
    from kafkalog_cli.ops.truncate import TruncatePlan
    from kafkalog_cli.ops.undo import Undone
    from kafkalog_cli.ops.verify.partition import Verification


class OnPath:
    """The verbs as methods on the partitions under `path`; each takes the arguments of its function after the path."""

    @property
    def path(self) -> str:
        """The path that was opened."""
        raise NotImplementedError

    def verify(self, **what: Any) -> Run[Verification]:
        """See `kafkalog_cli.verify`."""
        return verify(self.path, **what)

    def find(self, **what: Any) -> Iterator[FoundRecord]:
        """See `kafkalog_cli.find`."""
        return find(self.path, **what)

    def serve(self, **what: Any) -> LogServer:
        """See `kafkalog_cli.serve`."""
        return serve(self.path, **what)

    def replay(self, **what: Any) -> Run[ReplayedPartition | ReplayedOffset]:
        """See `kafkalog_cli.replay`."""
        return replay(self.path, **what)

    def stats(self, **what: Any) -> Run[MeasuredPartition]:
        """See `kafkalog_cli.stats`."""
        return stats(self.path, **what)

    def inspect(self, **what: Any) -> Run[InspectedPartition]:
        """See `kafkalog_cli.inspect`."""
        return inspect(self.path, **what)

    def metadump(self, out: str | PathLike[str], **what: Any) -> Metadump:
        """See `kafkalog_cli.metadump`."""
        return metadump(self.path, out, **what)

    def cluster(self, **what: Any) -> ClusterDescription:
        """See `kafkalog_cli.cluster`."""
        return cluster(self.path, **what)

    def doctor(self, *text: str, **what: Any) -> Examination:
        """See `kafkalog_cli.doctor`."""
        return doctor(self.path, *text, **what)

    def groups(self, **what: Any) -> Run[GroupDescription]:
        """See `kafkalog_cli.groups`."""
        return groups(self.path, **what)

    def group_history(self, **what: Any) -> Run[OffsetChange]:
        """See `kafkalog_cli.group_history`."""
        return group_history(self.path, **what)

    def transactions(self, **what: Any) -> Run[TransactionalId | OpenInLog]:
        """See `kafkalog_cli.transactions`."""
        return transactions(self.path, **what)

    def recover(self, **what: Any) -> Run[Recovered]:
        """See `kafkalog_cli.recover`."""
        return recover(self.path, **what)

    def roll(self, **what: Any) -> Run[Changed[RollPlan]]:
        """See `kafkalog_cli.roll`."""
        return roll(self.path, **what)

    def retain(self, **what: Any) -> Run[Changed[RetainPlan]]:
        """See `kafkalog_cli.retain`."""
        return retain(self.path, **what)

    def compact(self, **what: Any) -> Run[Changed[CompactPlan]]:
        """See `kafkalog_cli.compact`."""
        return compact(self.path, **what)

    def truncate(self, offset: int, **what: Any) -> Run[Changed[TruncatePlan]]:
        """See `kafkalog_cli.truncate`."""
        return truncate(self.path, offset, **what)

    def delete_records(self, before_offset: int, **what: Any) -> Run[Changed[DeleteRecordsPlan]]:
        """See `kafkalog_cli.delete_records`."""
        return delete_records(self.path, before_offset, **what)

    def undo(self, run: str, **what: Any) -> Run[Undone]:
        """See `kafkalog_cli.undo`."""
        return undo(self.path, run, **what)

    def purge(self, **what: Any) -> Run[PurgePlan]:
        """See `kafkalog_cli.purge`."""
        return purge(self.path, **what)
