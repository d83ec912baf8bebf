"""Damage to the files of a partition (name to bytes), of every kind that a disk, a crash or a hand leaves.

Each kind is a function of a Random and the files, which it changes in place; it does nothing where there is nothing
to damage. `KINDS` has them by name, so that a case is a list of (name, seed) and can be made smaller.
"""

from random import Random

from tests.kafka.file_damage import FILE_KINDS
from tests.kafka.log_damage import LOG_KINDS

KINDS = FILE_KINDS | LOG_KINDS
OFTEN = (
    "flip",
    "flip_in_header",
    "cut",
    "lose_index",
    "leftover",
    "base_offset",
    "end_beyond",
    "resize_index",
    "add_batches",
)
RARELY = {"odd_name": 0.2, "partition_metadata": 0.2, "lose_all_logs": 0.5, "last_offset_delta": 0.6}


def choose(chance):
    """None to four damages, as (kind, seed)."""
    names = [*KINDS, *OFTEN]
    chosen = []
    for _ in range(chance.choice([0, 1, 1, 1, 2, 2, 3, 4])):
        name = chance.choice(names)
        if chance.random() < RARELY.get(name, 1):
            chosen.append((name, chance.randrange(1 << 32)))
    return chosen


def apply(files, damages):
    """The files after the damages."""
    files = dict(files)
    for name, seed in damages:
        KINDS[name](Random(seed), files)
    return files
