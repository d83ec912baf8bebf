"""The text of `demo`: the directory that it made, and the commands to try on it."""

from collections.abc import Iterator

from kafkalog_cli.errors import shell_word
from kafkalog_cli.ops.demo import FLIPPED, TORN, Demo

TOUR = (
    ("ls {dir}", "lists partitions, segments and offsets"),
    ("verify {dir}", f"finds half a batch at the end of {TORN} and a flipped bit in {FLIPPED}; changes nothing"),
    (f"recover {{dir}}/{TORN} --dry-run", "shows the repair of the torn end; changes nothing"),
    (f"recover {{dir}}/{TORN}", "repairs it, keeps the bytes that it cuts off, and prints the undo command"),
    (f"recover {{dir}}/{FLIPPED} --salvage {{dir}}-salvaged", "copies every readable batch to another directory"),
    ("read {dir}/payments-0 --isolation read_committed", "prints committed payments; a later transaction hangs"),
    ("compact {dir}/customers-0 --dry-run --estimate", "shows the log cleaner's gain on 500 changes of 40 customers"),
    ("retain {dir}/orders-0 --dry-run --explain", "shows which segments are older than the topic's 36 hours"),
    ("sql {dir} 'select count(*) from orders'", "queries the topics, on Spark"),
)
"""Commands after `kafkalog`, in the order of a repair, and the effect of each."""


def demo_lines(demo: Demo) -> Iterator[str]:
    """Yield the lines to print."""
    yield f"{demo.path}: {demo.partitions} partitions of a broker that was killed, on a disk with a bad sector. Try:"
    for command, effect in TOUR:
        yield ""
        yield f"  # {effect}"
        yield f"  kafkalog {command.format(dir=shell_word(demo.path))}"
