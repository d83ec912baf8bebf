"""Unpacks the demo: the log directory of a web shop, as a broker killed on a bad disk leaves it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from importlib import resources
from typing import NamedTuple

from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.named_places import check_output_directory
from kafkalog_cli.errors import UsageError, of_the_system, shell_word

TORN, FLIPPED = "orders-1", "orders-2"


class Demo(NamedTuple):
    """The demo that was made: its log directory, and the number of its partitions."""

    path: str
    partitions: int


def make_demo(fs: WritableFilesystem, path: str) -> Demo:
    """Make the log directory `path`, which must not exist or be empty.

    Raises UsageError, as `check_output_directory`, and KafkalogError if the disk refuses a file.
    """
    check_output_directory(fs, path)
    status = fs.status(path)
    if status is not None and (not status.is_directory or fs.list_directory(path)):
        raise UsageError(reason=f"demo makes a new directory; {path} is there and is not empty")
    packed = resources.files(__package__).joinpath("demo.tar.gz").read_bytes()
    partitions = 0
    try:
        if status is None:
            fs.make_directory(path)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            for member in archive:
                content = archive.extractfile(member)
                if content is None:
                    fs.make_directory(f"{path}/{member.name}")
                    partitions += 1
                    continue
                with fs.create(f"{path}/{member.name}") as file:
                    file.write(0, content.read())
                    file.sync()
    except OSError as error:
        raise of_the_system(path, error) from error
    return Demo(path, partitions)


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
