"""Random and damaged inputs through every function of the library, built with ASan and UBSan: native/fuzz.py SECONDS.

What a function accepts is compared with tests/support/naive_reader.py and Python's own modules; the sanitizers end the
process at the first access outside of a buffer, or the first operation without a defined result.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from array import array
from collections import Counter
from itertools import accumulate, islice, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import build

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")
ROOT = Path(__file__).resolve().parents[1]
MOST = 300
"""The most records of a matrix."""
CHARACTERS = "abcdefghijklmnopqrstuvwxyz" * 2 + "ßéàд日本€" * 3 + '"\\' * 4 + "\n\x7f\x85\u2028\u0e01\ud7ff😀"
SURROGATE = re.compile(b"\xed[\xa0-\xbf]")
SHOWN_ESCAPED = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")


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


def mutated(chance: random.Random, data: bytes, most: int = 4) -> bytearray:
    """Return the bytes with some of them changed, lost or repeated, in memory of their own without a spare byte."""
    out = bytearray(data)
    for _ in range(chance.randrange(most + 1)):
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
    return bytearray(bytes(out))


class Fuzz:
    """One input after another through all kernels. `counts` says how often each had one, and how often it took it."""

    def __init__(self, native: ModuleType, naive: ModuleType, chance: random.Random) -> None:
        self.native, self.naive, self.chance = native, naive, chance
        self.counts: Counter[str] = Counter()

    def once(self, log: bytearray, text: bytearray) -> None:
        """Try one log and one text of lines."""
        native, chance = self.native, self.chance
        found = native.scan(log, 0, len(log), 1 << 20)
        rows = [array("q", found.columns)[row :: found.rows] for row in range(found.rows)]
        wanted = self.naive.read_batches(bytes(log))
        for row in rows:
            if row[5] >= 2 and row[1] < 61:  # shorter than its header: the naive reader ends there
                assert not row[14]
                break
            batch = next(wanted)
            assert list(row) == list(batch), (list(row), batch)
        self.counts["scan"] += 1
        self.counts["batches of scan"] += len(rows)
        self.search(log)
        self.murmur2(log)
        self.crc(log)
        self.render(log)
        self.index()
        self.lines(text)
        if rows:
            self.survey(found)
            self.decode(log, found, rows)

        noise = bytearray(chance.randbytes(chance.randrange(200)))
        native.scan(noise, 0, len(noise) + chance.randrange(9), 1 << 20)

    def survey(self, found: Any) -> None:
        """Find what is true of all batches, and which entries of indexes fit them."""
        from kafkalog_cli.format.batch import BatchColumns

        chance, batches = self.chance, BatchColumns(found.columns, found.rows, found.rows)
        whole, rows = batches.survey, [*batches.rows()]
        assert [*zip(whole.least, whole.largest, strict=True)] == [
            (min(one), max(one)) for one in zip(*rows, strict=True)
        ]
        assert whole.uneven == sum((b.last_offset - b.base_offset + 1 - b.records_count) % (1 << 64) > 0 for b in rows)
        pairs = [*pairwise(rows)]
        assert whole.gaps == sum(
            (after.base_offset - before.last_offset - 1) % (1 << 64) > 0 for before, after in pairs
        )
        assert self.native.gaps(batches.last_offset[:-1], batches.base_offset[1:]) == [
            row for row, (before, after) in enumerate(pairs) if (after.base_offset - before.last_offset - 1) % (1 << 64)
        ]
        back = {row for row, (before, after) in enumerate(pairs, 1) if after.base_offset <= before.last_offset}
        assert whole.disordered == len(back | {row for row, b in enumerate(rows) if b.base_offset > b.last_offset})
        chosen = sorted(chance.choices(range(len(rows)), k=chance.randrange(9)))
        wrong = chance.randrange(20)
        offsets, positions, times = (
            array("q", (rows[row][field] + (number == wrong) for number, row in enumerate(chosen)))
            for field in (3, 0, 9)
        )
        single = self.native.match_positions(offsets, positions, batches)
        fits = [number != wrong and rows[row].position > 0 and rows[row].magic > 1 for number, row in enumerate(chosen)]
        assert len(single) == (fits.index(False) if False in fits else len(fits)), (single, fits)
        assert [bool(mark) for mark in single] == [
            rows[row].base_offset == rows[row].last_offset for row in chosen[: len(single)]
        ]
        assert self.native.match_times(times, offsets, batches, -1) <= min(wrong, len(chosen))
        self.counts["survey"] += 1

    def decode(self, log: bytearray, found: Any, rows: list[array[int]]) -> None:
        """Decode the batches of a log; then with wrong borders; encode, hash and copy their records."""
        native, chance = self.native, self.chance
        data, out = native.new_matrix(native.RECORD_COLUMNS, MOST)
        memory, source = native.Memory(found.columns), native.Memory(log)
        batches = native.Columns(memory, memory.address, found.rows, found.rows)
        native.decode_stored(source, chance.randrange(-3, 3), 200, batches, 0, found.rows, out)
        edges = array("q", (chance.randrange(-9, len(log) + 9) for _ in rows))
        ends = array("q", (edge + chance.randrange(-9, 200) for edge in edges))
        native.decode_batches(source, edges, ends, batches, 0, out)
        native.decode_records(source, edges[0], ends[0], chance.randrange(MOST), rows[0], out)
        part = native.decode_stored(source, 0, 200, batches, 0, found.rows, out)
        self.counts["decode"] += 1
        columns = [
            array("q", bytes(data[8 * MOST * column : 8 * (MOST * column + part.records)]))
            for column in range(native.RECORD_COLUMNS)
        ]
        self.check_records(log, rows[: part.batches], columns)
        if part.batches:
            self.contradictions(rows[: part.batches], columns, [*part.ends])
        if part.records:
            self.keys(log, source, out, part.records, columns)
            self.fields(log, columns)
            self.encode(log, out._replace(rows=part.records), rows[0], columns)

    def check_records(self, log: bytearray, rows: list[array[int]], columns: list[array[int]]) -> None:
        """Compare decoded records with the naive reader's."""
        batches = list(islice(self.naive.read_batches(bytes(log)), len(rows)))
        # As in Kafka, bytes behind the header of a batch of no records are not looked at.
        full = [batch for batch in batches if batch.records_count]
        wanted = [record for batch in full for record in self.naive.read_records(bytes(log), batch)]
        assert len(wanted) == len(columns[0])
        for number, record in enumerate(wanted):
            offset, timestamp, sequence, key_at, key_size, value_at, value_size, _, headers, *_ = (
                column[number] for column in columns
            )
            key = None if key_size < 0 else bytes(log[key_at : key_at + key_size])
            value = None if value_size < 0 else bytes(log[value_at : value_at + value_size])
            made = (offset, timestamp, sequence, key, value, headers)
            assert made == (*record[:5], len(record.headers)), (made, record)
        self.counts["records of decode"] += len(wanted)

    def contradictions(self, rows: list[array[int]], columns: list[array[int]], ends: list[int]) -> None:
        """Find the batches whose headers do not fit their records, some of which are changed."""
        from kafkalog_cli.format.batch import Batch, BatchColumns
        from kafkalog_cli.format.records import RecordColumns

        chance, wanted = self.chance, []
        batches = [Batch._make(row) for row in rows]
        number = chance.randrange(len(batches))
        name = chance.choice(["base_offset", "last_offset", "max_timestamp"])
        value = getattr(batches[number], name) + chance.choice([-1, 0, 1])
        batches[number] = batches[number]._replace(**{name: max(-1, value)})
        for number, (batch, begin, end) in enumerate(zip(batches, [0, *ends], ends, strict=False)):
            offsets, largest = columns[0][begin:end], max(columns[1][begin:end], default=-1)
            is_wrong = any(before >= after for before, after in pairwise(offsets)) or any(
                (batch.base_offset != -1 and offset < batch.base_offset, offset > batch.last_offset)[edge]
                for edge, offset in enumerate((*offsets[:1], *offsets[-1:]))
            )
            is_other = end > begin and largest != batch.max_timestamp and (batch.max_timestamp != -1 or largest >= -1)
            if is_wrong or is_other:
                wanted.append((number, is_wrong, is_other, largest))
        found = self.native.contradictions(
            RecordColumns.from_columns(columns), memoryview(array("q", ends)), BatchColumns.from_rows(batches)
        )
        assert [*found] == wanted
        self.counts["contradictions"] += 1

    def keys(self, log: bytearray, source: Any, out: Any, records: int, columns: list[array[int]]) -> None:
        """Find the last record of each key."""
        native = self.native
        table, marks, row = native.KeyTable(16, 8, 64), bytearray(records), 0
        while row < records:
            row, why = table.put(source, out, row, records, 0, (0, 0), marks)
            if why == native.KEYS_NEED_SLOTS:
                table.grow_slots(2 * table.slots, table.slots)
            elif why == native.KEYS_NEED_ARENA:
                table.grow_arena(2 * table.arena_bytes + 100)
        keys = [
            None if size < 0 else bytes(log[at : at + size]) for at, size in zip(columns[3], columns[4], strict=True)
        ]
        last = {key: number for number, key in enumerate(keys)}
        assert [bool(mark) for mark in marks] == [key is not None and last[key] != at for at, key in enumerate(keys)]
        self.counts["keys"] += 1

    def fields(self, log: bytearray, columns: list[array[int]]) -> None:
        """Copy values and headers, whose positions may be wrong."""
        native, chance = self.native, self.chance
        at, sizes, headers_at, counts = (array("q", columns[column]) for column in (5, 6, 7, 8))
        if chance.randrange(2):
            for column in (at, sizes, headers_at):
                column[chance.randrange(len(column))] += chance.randrange(-2, 3) * chance.choice([1, 99, 1 << 60])
        rows = len(at)
        ends, values = bytearray(8 * rows + 8), bytearray(min(1 << 20, sum(size for size in sizes if size > 0)))
        try:
            native.copy_fields(log, at, sizes, ends, values)
            parts = (log[begin : begin + size] for begin, size in zip(at, sizes, strict=True) if size > 0)
            assert values == b"".join(parts)
            total = native.header_bytes(log, headers_at, counts)
            count = sum(counts)
            border = bytearray(8 * count + 8), bytearray(8 * count + 8)
            native.copy_headers(log, headers_at, counts, border, tuple(map(bytearray, total)), bytearray(count))
        except ValueError:
            pass
        column = native.FieldColumn(
            values,
            chance.choice([ends, array("q", [chance.randrange(-(1 << 63), 1 << 63) for _ in range(rows + 1)])]),
            None,
        )
        none = native.FieldColumn(b"", bytearray(8), None)
        with contextlib.suppress(ValueError):
            native.join_columns(
                (column, column), bytearray(8 * rows + 8), (none, none), bytearray(8 * rows),
                bytearray(2 * len(values)), bytearray(8 * native.NEW_COLUMNS * rows),
            )  # fmt: skip
        self.counts["fields"] += 1

    def encode(self, log: bytearray, records: Any, header: array[int], columns: list[array[int]]) -> None:
        """Write the records as one batch, and read it."""
        native, chance = self.native, self.chance
        headers = bytearray(array("q", header))
        memory = native.Memory(headers)
        for column, value in ((2, columns[0][0]), (3, columns[0][-1]), (7, header[7] & ~7 & 0xFF)):
            struct.pack_into("q", headers, 8 * column, value)
        out = bytearray(chance.choice([chance.randrange(300), 2 * len(log) + 70 * records.rows]))
        del memory
        begins, ends = array("q", [0]), array("q", [records.rows])
        done, end = native.encode_batches(log, records, None, begins, ends, headers, 0, out, 0)
        self.counts["encode"] += 1
        if not done:
            return
        (batch,) = self.naive.read_batches(bytes(out[:end]))
        assert batch.valid
        if max(abs(offset - columns[0][0]) for offset in columns[0]) < 1 << 31:  # else no delta expresses it
            made = list(self.naive.read_records(bytes(out[:end]), batch))
            assert [record.offset for record in made] == list(columns[0])
            assert sum(len(record.value or b"") for record in made) == sum(size for size in columns[6] if size > 0)

    def search(self, log: bytearray) -> None:
        """Find the first right batch, with pieces and heaps of any size."""
        native, chance = self.native, self.chance
        begin = chance.randrange(len(log) + 1)
        search = native.BatchSearch(
            begin, chance.choice([1, 2, 1000]), is_v07=0, is_in_compressed=0, last_offset=-1, largest=1 << 20,
            header_end=len(log), file_end=len(log),
        )  # fmt: skip
        state, read = native.SEARCH_FREE, chance.randrange(61, 1000)
        while state != native.SEARCH_DONE and search.position < len(log):
            piece = bytearray(log[search.position : search.position + read])
            state = search.add(piece, is_last=search.position + len(piece) == len(log))
        assert search.found == self.naive.first_right_batch(bytes(log), begin)
        self.counts["search"] += 1

    def murmur2(self, log: bytearray) -> None:
        """Hash keys, whose borders may be wrong."""
        from kafka.partitioner.default import murmur2

        chance = self.chance
        ends = sorted(chance.randrange(min(200, len(log) + 1)) for _ in range(4))
        keys = [bytes(log[begin:end]) for begin, end in pairwise(ends)]
        at, sizes = array("q", ends[:3]), array("q", map(len, keys))
        hashes = self.native.murmur2(log, at, sizes)
        assert list(hashes) == [murmur2(key) & 0xFFFFFFFF for key in keys]
        chance.choice([at, sizes])[chance.randrange(3)] += chance.choice([-1, 1]) << chance.randrange(62)
        with contextlib.suppress(ValueError):
            self.native.murmur2(log, at, sizes)
        self.counts["murmur2"] += 1

    def new_records(self, fields: bytearray, matrix: array[int], count: int) -> None:
        """Copy new records, all or some, and find where batches end; some numbers may be wrong."""
        native, chance = self.native, self.chance
        if is_wrong := chance.randrange(2):
            matrix[chance.randrange(len(matrix))] = chance.randrange(-(1 << 63), 1 << 63)
        memory = native.Memory(matrix)
        records = native.Columns(memory, memory.address, 9, count)
        rows = array("q", [chance.randrange(-1, 9) for _ in range(3)]) if chance.randrange(2) else None
        data, target = native.new_matrix(native.NEW_COLUMNS, 12)
        out = bytearray(4 * len(fields))
        with contextlib.suppress(ValueError):
            end = native.copy_records(fields, records, rows, out, chance.randrange(-1, 9), target, 0)
            assert end <= len(out)
        if not is_wrong and count:
            assert native.copy_records(fields, records, None, out, 0, target, 0) == len(fields)
            assert out[: len(fields)] == fields
            assert array("q", bytes(data))[12 * 3] == matrix[9 * 3]
        current = array("q", [0, 0])
        ends = native.batch_ends(records, chance.randrange(99), 9, chance.randrange(1, 9), chance.randrange(8), current)
        assert list(ends[-1:]) == [count] * (count > 0)
        assert sorted(set(ends)) == list(ends)
        self.counts["new records"] += 1

    def crc(self, log: bytearray) -> None:
        """Both ways to compute CRC-32C, and CRC-32."""
        part = bytearray(log[self.chance.randrange(len(log) + 1) :])
        kernels, source = self.native.library(), self.native.Memory(part)
        contents = source.address, source.size
        assert kernels.kafkalog_crc32c(*contents, 7) == kernels.kafkalog_crc32c_by_table(*contents, 7)
        assert kernels.kafkalog_crc32c(*contents, 0) == self.naive.crc32c(bytes(part))
        assert kernels.kafkalog_crc32(*contents, 0) == zlib.crc32(part)
        self.counts["crc"] += 1

    def index(self) -> None:
        """Append batches to indexes, also such that no index takes."""
        chance, native = self.chance, self.native
        rows = chance.randrange(30)
        positions = array("q", accumulate(chance.randrange(61, 999) for _ in range(rows)))
        offsets = array("q", (chance.choice([at, at, 5, 1 << chance.randrange(63)]) for at in range(rows)))
        times = array("q", (chance.randrange(-5, 99) for _ in range(rows)))
        state = native.IndexState(interval=chance.randrange(999), most_offsets=9, most_times=9, max_timestamp=-1)
        made = native.index_batches(state, positions, offsets, times, is_last=bool(chance.randrange(2)))
        assert (len(made.offsets), len(made.times)) == (8 * state.offsets, 12 * state.times)
        entries = list(struct.iter_unpack(">ii", made.offsets))
        assert entries == sorted(set(entries))
        assert set(entries) <= set(zip(offsets[: made.batches + 1], positions, strict=False))
        offsets_read, positions_read, *_ = native.index_columns(made.offsets, len(entries), 7, is_time_index=False)
        assert list(zip(offsets_read, positions_read, strict=True)) == [(7 + offset, at) for offset, at in entries]
        times_made = list(struct.iter_unpack(">qi", made.times))
        both = native.index_columns(made.times, len(times_made), 0, is_time_index=True)
        assert list(zip(both.first, both.second, strict=True)) == times_made
        self.counts["index"] += 1

    def render(self, log: bytearray) -> None:
        """Write a field in each form, into outputs of any size."""
        chance, native = self.chance, self.native
        if chance.randrange(2):
            log = mutated(chance, "".join(chance.choices(CHARACTERS, k=chance.randrange(80))).encode(), most=1)
        at = chance.choice([0, chance.randrange(len(log) + 1)])
        size = chance.randrange(min(chance.choice([40, 2000]), len(log) - at) + 1)
        record = [0] * native.RECORD_COLUMNS
        record[5:7] = at, size
        batch, form = [0] * native.BATCH_COLUMNS, chance.randrange(8)
        program = native.RenderProgram(array("q", [8, 1, form, 0]), 0, b"")
        made = native.Rendering(
            program, log, self.one_row(batch), array("q", [1]), self.one_row(record),
        )  # fmt: skip
        out, value = b"", bytes(log[at : at + size])
        while made.state.status == native.RENDER_MORE:
            room = bytearray(chance.randrange(256, 1500))
            out += room[: made.into(native.Memory(room))]
        if form == 0:
            assert out == value
        elif form == 1:
            shown = json.loads(out)
            is_text = shown["encoding"] == "utf-8"
            assert (shown["data"].encode() if is_text else base64.b64decode(shown["data"])) == value
            assert is_text == (value.decode("utf-8", "ignore").encode() == value)
            assert not SHOWN_ESCAPED.search(out.decode())
        elif form in (5, 6):
            assert out == (b"0x" if form == 6 else b"") + value.hex().encode()
        elif form == 7:
            assert out == base64.b64encode(value)
        elif form == 2 and not SURROGATE.search(value):
            assert out == value.decode("utf-8", "replace").encode()
        else:
            out.decode()
        self.counts["render"] += 1

    def one_row(self, values: list[int]) -> Any:
        """Return columns of one row."""
        memory = self.native.Memory(array("q", values))
        return self.native.Columns(memory, memory.address, 1, 1)

    def lines(self, text: bytearray) -> None:
        """Read lines of NDJSON."""
        native = self.native
        text += b"\n" + bytes(8)
        room, columns = bytearray(len(text) + 64), bytearray(8 * native.NEW_COLUMNS * 9)
        end, filled, records, _ = native.read_lines(text, 0, 5, room, 0, columns, 0)
        self.new_records(room[:filled], array("q", bytes(columns)), records)
        matrix, objects = array("q", bytes(columns)), []
        for line in bytes(text[:end]).splitlines() if records else ():
            fields = json.loads(line) if line.strip() else {"type": "batch"}
            objects += [fields] if fields.get("type", "record") == "record" else []
        assert len(objects) == records
        for number, fields in enumerate(objects):
            size = matrix[9 * 6 + number]
            begin = matrix[9 * 5 + number]
            value = fields.get("value")
            if isinstance(value, dict):
                is_text = value["encoding"] == "utf-8"
                wanted = value["data"].encode() if is_text else base64.b64decode(value["data"])
            else:
                wanted = None if value is None else value.encode()
            assert (None if size < 0 else bytes(room[begin : begin + size])) == wanted
        self.counts["lines"] += 1


LINES = (
    b'{"schema":"kafkalog.record/1","type":"record","timestamp_ms":5,"key":null,"value":{"encoding":"base64",'
    b'"data":"YWJj"},"headers":[{"key":"h","value":null}],"control":null}\n{"key":"a\\u00e9\\ud83d\\ude00","value":"\xc3\xa9"}\n'
)


def small_log(chance: random.Random) -> bytes:
    """Return some batches of records with few keys."""
    from tests.support.logs import R, batch_v2

    out, offset = b"", chance.choice([0, 7, 1 << 40])
    for _ in range(chance.randrange(1, 4)):
        records = [
            R(offset + at, chance.randrange(1 << 41), chance.choice([None, b"", b"a", b"bb" * 9]), chance.randbytes(at))
            for at in range(chance.randrange(1, 9))
        ]
        records = [record._replace(headers=((b"h", None), (b"", b"v"))[: chance.randrange(3)]) for record in records]
        out += batch_v2(records, bits=chance.choice([0, 0, 8, 16]))
        offset += len(records)
    return out


def run(seconds: float, library: str) -> None:
    """Try inputs for so long."""
    import crc32c

    from kafkalog_cli.format import native
    from tests.support import naive_reader

    native._library = native._load(library)
    naive_reader.crc32c = crc32c.crc32c  # as slow as it is, the naive one would take half of the time
    seed = random.randrange(1 << 32)
    chance, count = random.Random(seed), 0
    logs = [path.read_bytes() for path in ROOT.glob("docs/example/*/*.log")]
    small = [small_log(chance) for _ in range(300)]
    ends = time.monotonic() + seconds
    fuzz = Fuzz(native, naive_reader, chance)
    while time.monotonic() < ends:
        log = mutated(chance, chance.choice(logs)[: chance.randrange(1200)])
        if chance.randrange(5):
            log = mutated(chance, chance.choice(small), most=1)
        text = mutated(chance, LINES)
        try:
            fuzz.once(log, text)
        except BaseException:
            print(f"seed {seed}, input {count}: {bytes(log)!r} {bytes(text)!r}")
            raise
        count += 1
    print(f"{count} inputs without a report of the sanitizers, with the answers of the naive reader")
    print(", ".join(f"{name} {number}" for name, number in sorted(fuzz.counts.items())))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        run(float(sys.argv[1]), sys.argv[2])
    else:
        with tempfile.TemporaryDirectory(prefix="kafkalog-") as made:
            sys.exit(start(float(sys.argv[1]), Path(made)))
