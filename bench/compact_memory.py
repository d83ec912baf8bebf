"""How much memory and time compact takes for many keys: a log of as many, one in five of them twice, cleaned once."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from compact_rows import SETTINGS
from compare import kafkalog_command
from jvm import cache_directory
from logs import write_numbered_keys
from measure import run

SEGMENTS = 4


def make(directory: Path, keys: int) -> None:
    """The partition `t-0`: every key once, then a fifth of them again, and an empty active segment."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    records = keys + keys // 5
    each = -(-records // SEGMENTS)
    for base in range(0, records, each):
        write_numbered_keys(directory / f"{base:020}.log", min(each, records - base), keys)
    for suffix in (".log", ".index", ".timeindex"):
        (directory / f"{records:020}{suffix}").touch()


def main() -> None:
    """Make the log, clean it in a process of its own, and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=50_000_000)
    parser.add_argument("--memory", default="128MiB")
    parser.add_argument("--only-make", action="store_true", help="the log, in a process of its own")
    options = parser.parse_args()
    directory = cache_directory() / "bench-many-keys" / "t-0"
    if options.only_make:
        make(directory, options.keys)
        return
    # Children are charged with the memory of the process that starts them, which stays small.
    subprocess.run([sys.executable, __file__, "--only-make", "--keys", str(options.keys)], check=True)
    size_bytes = sum(path.stat().st_size for path in directory.glob("*.log"))
    arguments = ["compact", str(directory), "--memory", options.memory, "--delay", "0s"]
    for name, value in SETTINGS.items():
        arguments += ["--config", f"{name}={value}"]
    done = run([*kafkalog_command(), *arguments])
    left_bytes = sum(path.stat().st_size for path in directory.glob("*.log"))
    shutil.rmtree(directory)
    print(
        f"{options.keys:,} keys in {options.keys + options.keys // 5:,} records, {size_bytes >> 20} MiB to"
        f" {left_bytes >> 20} MiB, --memory {options.memory}: {done.seconds:.0f} s, peak {done.peak_bytes >> 20} MiB"
    )


if __name__ == "__main__":
    main()
