"""Mutated inputs through every function of the library, built with ASan and UBSan: python native/fuzz.py SECONDS.

It starts itself with the sanitizers loaded, which report and end the process at the first access outside of a buffer.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path
from types import ModuleType

import build

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")
ROOT = Path(__file__).resolve().parents[1]


def start(seconds: float, folder: Path) -> int:
    """Build the library with the sanitizers, and run this file with it."""
    library = folder / "native.lib"
    build.build(library, more=SANITIZERS)
    runtimes = [
        subprocess.run(
            [*(build.compiler() or ()), f"-print-file-name={name}"], capture_output=True, text=True, check=True
        )
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(found.stdout.strip() for found in runtimes),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",  # else small buffers have no guarded edges
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.run([sys.executable, __file__, str(seconds), library], env=environment, check=False).returncode


def exact(data: bytes) -> bytearray:
    """Return a copy in memory of its own, so that the byte after it is not readable."""
    return bytearray(data)


def mutated(chance: random.Random, data: bytes) -> bytearray:
    """Return the bytes with some of them changed, lost or repeated."""
    out = bytearray(data)
    for _ in range(chance.randrange(5)):
        if not out:
            break
        at = chance.randrange(len(out))
        how = chance.randrange(5)
        if how == 0:
            out[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            out[at : at + 4] = chance.choice([b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\x80" * 5])
        elif how == 2:
            del out[at : at + chance.randrange(1, 40)]
        elif how == 3:
            del out[at:]
        else:
            out[at:at] = out[: chance.randrange(60)]
    return exact(bytes(out))


def once(native: ModuleType, chance: random.Random, log: bytearray, text: bytearray) -> None:
    """Scan a log, decode, encode, look up keys, copy fields; read lines."""
    found = native.scan(log, 0, len(log), 1 << 20)
    rows = native.SCAN_ROWS if not found.rows else found.rows
    data, out = native.new_matrix(native.RECORD_COLUMNS, 300)
    if found.rows:
        memory = native.Memory(found.columns)
        batches = native.Columns(memory, memory.address, rows, rows)
        source = native.Memory(log)
        native.decode_stored(source, chance.randrange(-3, 3), 200, batches, 0, found.rows, out)
        edges = array("q", (chance.randrange(-9, len(log) + 9) for _ in range(found.rows)))
        ends = array("q", (edge + chance.randrange(-9, 200) for edge in edges))
        decoded = native.decode_batches(source, edges, ends, batches, 0, out)
        header = array("q", memoryview(found.columns).cast("q")[::rows][: native.BATCH_COLUMNS])
        native.decode_records(source, edges[0], ends[0], chance.randrange(300), header, out)
        part = native.decode_stored(source, 0, 200, batches, 0, found.rows, out)
        table, marks = native.KeyTable(16, 8, 64), bytearray(300)
        row = 0
        while row < part.records:
            row, why = table.put(source, out, row, part.records, 0, (0, 0), -1, marks)
            if why == native.KEYS_NEED_SLOTS:
                table.grow_slots(2 * table.slots, table.slots)
            elif why == native.KEYS_NEED_ARENA:
                table.grow_arena(2 * table.arena_bytes + 100)
            elif why:
                break
        columns = memoryview(data).cast("q")
        taken = [column[: part.records] for column in (columns[at * 300 :] for at in range(native.RECORD_COLUMNS))]
        for column in (3, 5, 7) if chance.randrange(2) else ():
            for at in range(part.records):
                taken[column][at] += chance.randrange(-2, 3)
        try:
            sizes = native.header_bytes(log, taken[7], taken[8])
            count = sum(taken[8])
            border = bytearray(8 * count + 8), bytearray(8 * count + 8)
            native.copy_headers(log, taken[7], taken[8], border, tuple(map(bytearray, sizes)), bytearray(count))
            total = sum(size for size in taken[6] if size > 0)
            native.copy_fields(log, taken[5], taken[6], bytearray(8 * part.records + 8), bytearray(total))
            bodies = bytearray(chance.randrange(2000))
            native.encode_batches(
                log, out._replace(rows=part.records), None, array("q", [0]), array("q", [part.records]),
                bytearray(array("q", header)), 0, bodies, 0,
            )  # fmt: skip
        except ValueError:
            pass
        del decoded
    text += b"\n" + bytes(8)
    room = bytearray(len(text) + 64)
    native.read_lines(text, len(text), 0, 5, room, bytearray(8 * native.RUN_COLUMNS * 9))


LINES = (
    b'{"schema":"kafkalog.record/1","type":"record","timestamp_ms":5,"key":null,"value":{"encoding":"base64",'
    b'"data":"YWJj"},"headers":[{"key":"h","value":null}],"control":null}\n{"key":"a\\u00e9\\ud83d\\ude00","value":"\xc3\xa9"}\n'
)


def run(seconds: float, library: str) -> None:
    """Try inputs for so long."""
    from kafkalog_cli.format import native

    native._library = native._load(library)
    logs = [path.read_bytes() for path in ROOT.glob("docs/example/*/*.log")]
    chance, ends, count = random.Random(), time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        log = mutated(chance, chance.choice(logs)[: chance.randrange(3000)])
        once(native, chance, log, mutated(chance, LINES))
        count += 1
    print(f"{count} inputs without a report of the sanitizers")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        run(float(sys.argv[1]), sys.argv[2])
    else:
        with tempfile.TemporaryDirectory(prefix="kafkalog-") as made:
            sys.exit(start(float(sys.argv[1]), Path(made)))
