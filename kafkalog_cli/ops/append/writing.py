"""How records are written: the options that the command line's and the library's append have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkalog_cli.errors import UsageError
from kafkalog_cli.format.compression import Codec, codec_name, compress
from kafkalog_cli.format.control import ABORT, COMMIT

CODECS = tuple(codec_name(codec) for codec in Codec)
ENDS = {"commit": COMMIT, "abort": ABORT, "open": None}
"""How a transaction is left, and the type of the marker that ends it; None for no marker."""

_INT16, _INT32, _INT64 = ((1 << bits) - 1 for bits in (15, 31, 63))
_RANGES = {
    "batch_bytes": (1, _INT32),
    "leader_epoch": (0, _INT32),
    "producer_id": (0, _INT64),
    "producer_epoch": (0, _INT16),
    "first_sequence": (0, _INT32),
    "coordinator_epoch": (0, _INT32),
}
"""The smallest and the largest value that a batch can hold for each option."""


@dataclass(frozen=True, slots=True)
class Writing:
    """The choices of the caller, under the names of the options.

    `codec` is used if the topic's compression.type leaves the choice to the producer. `compression_level` None is the
    codec's default. `batch_bytes` is the largest size of a batch of several records before compression. `leader_epoch`
    None is the latest. `first_sequence` None continues after the producer's last sequence. `transaction` is one of
    ENDS, None for no transaction. `keep_offsets`: records already have offsets, timestamp types and leader epochs, as
    records that a follower fetches (UnifiedLog.appendAsFollower).
    """

    codec: str = "none"
    compression_level: int | None = None
    batch_bytes: int = 16_384
    leader_epoch: int | None = None
    producer_id: int | None = None
    producer_epoch: int = 0
    first_sequence: int | None = None
    transaction: str | None = None
    coordinator_epoch: int = 0
    keep_offsets: bool = False

    def check(self, spelled: Callable[[str], str] = str) -> None:
        """Raise UsageError if options contradict each other, or if no batch can hold a value.

        `spelled` returns the name of a field as the caller knows it.
        """
        for name, known in (("codec", CODECS), ("transaction", (None, *ENDS))):
            if getattr(self, name) not in known:
                names = ", ".join(one for one in known if one is not None)
                raise UsageError(reason=f"{spelled(name)} {getattr(self, name)!r}: choose one of {names}")
        for name, (least, most) in _RANGES.items():
            number = getattr(self, name)
            if number is not None and not least <= number <= most:
                raise UsageError(reason=f"{spelled(name)} {number} is not from {least} to {most}")
        for name in ("transaction", "first_sequence"):
            if getattr(self, name) is not None and self.producer_id is None:
                raise UsageError(reason=f"{spelled(name)} needs a {spelled('producer_id')}")
        if self.keep_offsets and (self.producer_id is not None or self.leader_epoch is not None):
            others = f"{spelled('producer_id')} or {spelled('leader_epoch')}"
            raise UsageError(reason=f"{spelled('keep_offsets')} cannot be combined with {others}")
        try:
            compress(self.codec_id, b"", level=self.compression_level)
        except ValueError as error:
            raise UsageError(reason=f"{spelled('compression_level')}: {error}") from error

    @property
    def codec_id(self) -> Codec:
        """The codec with the name `codec`."""
        return Codec[self.codec.upper()]
