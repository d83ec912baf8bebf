"""The request of `find`: the conditions, the range, and the numbers of matches and of records around them."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.values.decoder import ValueDecoder
from kafkalog_cli.ops.find.conditions import Conditions
from kafkalog_cli.ops.read.request import Isolation, Start


@dataclass(frozen=True, slots=True)
class FindRequest:
    """The choices of `kafkalog find`.

    `start`, `from_time_ms`, `to_offset`, `until_ms` and `isolation` are those of a ReadRequest. A start that a
    partition does not have is moved into its log, or leaves it out. `first` and `last` limit the matches of each
    partition; None: all. `before` and `after` are the records around each match. `only_counts`: no record is kept.
    `decoder` decodes the values in which JSON conditions look; None: the values are JSON as they are stored.
    """

    conditions: Conditions = field(default_factory=Conditions)
    start: int | Start = Start.EARLIEST
    from_time_ms: int | None = None
    to_offset: int | None = None
    until_ms: int | None = None
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    first: int | None = None
    last: int | None = None
    before: int = 0
    after: int = 0
    only_counts: bool = False
    limits: Limits = DEFAULT_LIMITS
    decoder: ValueDecoder | None = None

    @property
    def has_context(self) -> bool:
        """Whether records around the matches are wanted."""
        return bool(self.before or self.after)
