"""Checks fast (in C) whether the keys of an index are ascending: an index may have a million entries."""

from __future__ import annotations

from collections.abc import Sequence
from operator import ge, gt


def rises(keys: Sequence[int], before: int) -> bool:
    """Whether each key is larger than the key before it, and the first is larger than `before`."""
    return not keys or (keys[0] > before and not any(map(ge, keys, keys[1:])))


def ascending(keys: Sequence[int]) -> Sequence[int]:
    """Return the slots in the order of their keys: a range if the keys are already in order."""
    if not any(map(gt, keys, keys[1:])):
        return range(len(keys))
    return sorted(range(len(keys)), key=keys.__getitem__)
