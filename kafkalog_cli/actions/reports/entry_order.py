"""Whether the keys of an index go up, found at the speed of C: an index may have a million entries."""

from __future__ import annotations

from collections.abc import Sequence
from operator import ge, gt


def rises(keys: Sequence[int], before: int) -> bool:
    """Whether each key is above the one before it, the first above `before`."""
    return not keys or (keys[0] > before and not any(map(ge, keys, keys[1:])))


def ascending(keys: Sequence[int]) -> Sequence[int]:
    """The slots in the order of their keys: a range where that is their own."""
    if not any(map(gt, keys, keys[1:])):
        return range(len(keys))
    return sorted(range(len(keys)), key=keys.__getitem__)
