"""The checks of `undo` and `purge` before they change a partition: the table of refusals, without any settings."""

from __future__ import annotations

from kafkalog_cli.disk.clocks import Clock
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.partition_facts import Places, gather_facts
from kafkalog_cli.ops.refusals import Action, AppliedRule, Intent, RuleOutcome, judge, raise_refusals
from kafkalog_cli.ops.settings import SettingsSource


def check_refusals(  # noqa: PLR0913, PLR0917
    fs: WritableFilesystem,
    partition: Partition,
    action: Action,
    clock: Clock,
    places: Places | None = None,
    in_place: frozenset[str] = frozenset(),
) -> tuple[AppliedRule, ...]:
    """Return the warnings that apply. Raises Refused or UnsupportedFormat for refusals. Reads no metadata log."""
    facts = gather_facts(fs, partition, None, SettingsSource(fs, {}, {}), places=places)
    intent = Intent(action, clock.now_ms, now_is_given=clock.is_given, in_place=in_place)
    verdicts = judge(facts, intent)
    raise_refusals(verdicts)
    return tuple(verdict for verdict in verdicts if verdict.outcome is RuleOutcome.WARNING)
