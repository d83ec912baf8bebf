"""Many partitions, made in no time, and what export or `verify --each-host` takes for them.

Each partition has the first segments of one of a few logs, by hard links, so that ten GiB take the room of one log each
and come from the page cache: what is measured is the work, not a disk. `--copies` makes files of their own.
"""

from __future__ import annotations

import argparse
import base64
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent))

from compare import kafkalog_command
from logs import Log, json_record, write_segment

from kafkalog_cli.format import producer_snapshot

MEBIBYTE = 1 << 20
UNITS = {"MiB": MEBIBYTE, "GiB": 1 << 30}
SEGMENT_RECORDS = {"none": 3200, "lz4": 9600, "zstd": 12800}
"""So many make about a MiB."""
SEGMENTS = 64
TOPIC_PARTITIONS = 20
META = "version=1\ncluster.id=bGFiLWNsdXN0ZXItMDAwMA\nnode.id=1\n"
EPOCHS = "0\n1\n0 0\n"
EVERY_SECONDS, LATE_SECONDS = 0.2, 0.6
"""How often memory is looked at; and what is no delay by other work any more."""
SUFFIXES = (".log", ".index", ".timeindex")


def size_of(text: str) -> int:
    """A size such as 10GiB."""
    found = re.fullmatch(r"(\d+)(MiB|GiB)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text}: 512MiB, 10GiB")
    return int(found[1]) * UNITS[found[2]]


def make_chains(directory: Path, codecs: list[str]) -> dict[str, list[Path]]:
    """A log of SEGMENTS segments for each codec: the segments' paths without suffix."""
    import random

    chains = {}
    for codec in codecs:
        log = Log(codec, codec, 0, 16_000, json_record(250, 350, keyed=True))
        count = SEGMENT_RECORDS[codec]
        (directory / codec).mkdir(parents=True)
        chains[codec] = [directory / codec / f"{at * count:020}" for at in range(SEGMENTS)]
        source = random.Random(codec)
        for at, path in enumerate(chains[codec]):
            if at < 8:  # of what is in a batch only eight segments differ: making records is slow
                write_segment(log, path.with_suffix(".log"), count, source)
            else:
                _renumbered(chains[codec][at % 8], path)
    return chains


def _renumbered(source: Path, target: Path) -> None:
    """The same batches from another base offset, which no checksum covers; indexes are relative to it."""
    shift = int(target.name) - int(source.name)
    data = bytearray(source.with_suffix(".log").read_bytes())
    at = 0
    while at < len(data):
        data[at : at + 8] = (int.from_bytes(data[at : at + 8], "big") + shift).to_bytes(8, "big")
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    target.with_suffix(".log").write_bytes(data)
    for suffix in (".index", ".timeindex"):
        shutil.copyfile(source.with_suffix(suffix), target.with_suffix(suffix))


def make_fleet(directory: Path, partitions: int, size_bytes: int, *, copies: bool) -> int:
    """A log directory of so many partitions, a few of them large and many small; the bytes of its segments."""
    shutil.rmtree(directory, ignore_errors=True)
    codecs = list(SEGMENT_RECORDS)
    chains = make_chains(directory / "chains", codecs)
    place = shutil.copyfile if copies else os.link
    root, done = directory / "data", 0
    root.mkdir()
    (root / "meta.properties").write_text(META)
    for number in range(partitions):
        chain = chains[codecs[number // TOPIC_PARTITIONS % len(codecs)]]
        partition = root / f"t{number // TOPIC_PARTITIONS:03d}-{number % TOPIC_PARTITIONS}"
        partition.mkdir()
        topic_id = base64.urlsafe_b64encode(f"topic {number // TOPIC_PARTITIONS:010d}".encode()).decode().rstrip("=")
        (partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
        (partition / "leader-epoch-checkpoint").write_text(EPOCHS)
        left = (size_bytes - done) / (partitions - number)
        share = left * (4 if number % 10 == 0 else 2 / 3)  # one in ten has six times what each of the others has
        for at, segment in enumerate(chain):
            if at and done_here(partition) + MEBIBYTE / 2 > share:
                break
            for suffix in SUFFIXES:
                name = segment.with_suffix(suffix)
                place(name, partition / name.name)
        max(partition.glob("*.log")).with_suffix(".snapshot").write_bytes(producer_snapshot.encode([]))
        done += done_here(partition)
    return done


def done_here(partition: Path) -> int:
    """Bytes of the segments of a partition."""
    return sum(path.stat().st_size for path in partition.glob("*.log"))


class Spent(NamedTuple):
    """A run: seconds, those of all processors, and the largest resident sets in bytes: driver, its JVM, and workers.

    Time in which somebody had stopped the processes (to measure something else on the same machine) is left out.
    """

    seconds: float
    cpu_seconds: float
    driver: int
    jvm: int
    workers: int


def spend(command: list[str], codes: tuple[int, ...] = (0, 3)) -> Spent:
    """Run a command, which ends with one of these codes, and watch the memory of its processes."""
    last, seconds = time.monotonic(), 0.0
    peaks, ticks = {"driver": 0, "jvm": 0, "workers": 0}, dict[int, int]()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        while process.poll() is None:
            found, is_stopped = _resident(process.pid, ticks)
            for kind, size_bytes in found.items():
                peaks[kind] = max(peaks[kind], size_bytes)
            time.sleep(EVERY_SECONDS)
            now = time.monotonic()
            seconds += 0 if is_stopped else min(now - last, LATE_SECONDS)  # what comes later was stopped itself
            last = now
        if process.returncode not in codes:
            said.seek(0)
            sys.exit(f"{command}: exit code {process.returncode}\n{said.read().decode()[-2000:]}")
    return Spent(seconds, sum(ticks.values()) / os.sysconf("SC_CLK_TCK"), **peaks)


def _resident(driver: int, ticks: dict[int, int]) -> tuple[dict[str, int], bool]:
    """The resident sets below a process now, shared pages of forked workers once for each; whether it is stopped.

    `ticks` gets what the processes have used of the processors.
    """
    parents, sizes, names, used, stopped = {}, {}, {}, {}, False
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
                fields = text.rpartition(")")[2].split()
                pid = int(entry.name)
                parents[pid], sizes[pid] = int(fields[1]), int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
                used[pid] = int(fields[11]) + int(fields[12])
                stopped |= pid == driver and fields[0] in "Tt"
                names[pid] = text.partition("(")[2].rpartition(")")[0]
            except (FileNotFoundError, ProcessLookupError):
                continue
    found = {"driver": 0, "jvm": 0, "workers": 0}
    for pid, size_bytes in sizes.items():
        line, above = pid, []
        while line in parents:
            above.append(line)
            line = parents[line]
        if driver in above:
            kind = "driver" if pid == driver else "jvm" if names[pid] == "java" else "workers"
            found[kind] += size_bytes
            ticks[pid] = max(ticks.get(pid, 0), used[pid])
    return found, stopped


def measure(root: Path, master: str) -> None:
    """Export, and print a row of the table."""
    size_bytes = sum(map(done_here, root.iterdir()))
    size = f"{size_bytes / UNITS['GiB']:.1f} GiB"
    output = root.parent / "output"
    shutil.rmtree(output, ignore_errors=True)
    load = os.getloadavg()[0]
    spent = spend(
        [*kafkalog_command(), "export", str(root), "--output", str(output), "--engine", "spark", "--master", master]
    )
    memory = " | ".join(f"{one // MEBIBYTE}" for one in (spent.driver, spent.jvm, spent.workers))
    print(f"| export | {size} | {spent.seconds:.0f} | {spent.cpu_seconds:.0f} | {memory} | {load:.1f} |", flush=True)
    shutil.rmtree(output, ignore_errors=True)


def measure_hosts(directory: Path, partitions: int, size_bytes: int) -> None:
    """Verify three workers' own disks of such logs, and print a row: the time beside that of the slowest disk alone.

    The workers have mounts of their own (unshare -m), a core each, and share this machine. So do the disks that are
    verified alone: all at once, each by one job. Spark's start is the time of a topic that no disk has, the
    shorter of one run before and one after, because the first starts of a cluster take longer.
    """
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.spark.clusters import cluster, spark_environment

    os.environ |= spark_environment()
    disks, shared = [directory / str(node) for node in range(1, 4)], directory / "kafka"
    done = sum(make_fleet(disk, partitions, size_bytes, copies=False) for disk in disks)
    for node, disk in enumerate(disks, 1):
        (disk / "data" / "meta.properties").write_text(META.replace("node.id=1", f"node.id={node}"))
    shared.mkdir(exist_ok=True)

    def before(number: int) -> tuple[str, ...]:
        mount = f'mount --bind {disks[number] / "data"} {shared} && exec "$@"'
        return ("unshare", "-m", "sh", "-c", mount, "sh")

    with ThreadPoolExecutor() as pool:
        commands = [[*kafkalog_command(), "verify", str(disk / "data"), "--jobs", "1"] for disk in disks]
        alone = max(spent.seconds for spent in pool.map(spend, commands))
    with cluster(directory / "cluster", 3, before) as url:
        command = [*kafkalog_command(), "verify", str(shared), "--each-host", "--hosts", "3", "--engine", "spark"]
        command += ["--master", url, "--conf", "spark.driver.host=127.0.0.1"]
        before_it = spend([*command, "--topic", "no-such-topic"], codes=(10,)).seconds
        together = spend(command).seconds
        start = min(before_it, spend([*command, "--topic", "no-such-topic"], codes=(10,)).seconds)
    size, ratio = f"{done / UNITS['GiB']:.1f} GiB", (together - start) / alone
    print("| | bytes | slowest disk alone s | Spark's start s | together s | ratio without the start |")
    print("|---|---|---|---|---|---|")
    print(
        f"| verify --each-host, 3 x {partitions} | {size} | {alone:.1f} | {start:.1f} | {together:.1f} | {ratio:.2f} |"
    )


def main() -> None:
    """Make a fleet, or measure several."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--bytes", type=size_of, action="append", help="512MiB, 10GiB (default); several to measure")
    parser.add_argument("--copies", action="store_true", help="no hard links")
    parser.add_argument("--measure", action="store_true", help="export of each size; the fleet goes again")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--each-host", action="store_true", help="verify --each-host of three fleets on a cluster")
    options = parser.parse_args()
    if options.each_host:
        measure_hosts(options.directory, options.partitions, (options.bytes or [size_of("1GiB")])[0])
        return
    if options.measure:
        print("| | bytes | seconds | CPU seconds | driver MiB | JVM MiB | workers MiB | load before |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
    for size_bytes in options.bytes or [size_of("10GiB")]:
        done = make_fleet(options.directory, options.partitions, size_bytes, copies=options.copies)
        if options.measure:
            measure(options.directory / "data", options.master)
            shutil.rmtree(options.directory)
        else:
            print(f"{options.partitions} partitions, {done} bytes, in {options.directory / 'data'}")


if __name__ == "__main__":
    main()
