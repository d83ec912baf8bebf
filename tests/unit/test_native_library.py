"""The library of C kernels: how it loads, and its answers to random and damaged bytes beside those of the naive reader."""

import ctypes
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog_cli.format import native
from kafkalog_cli.format.batch import BatchColumns
from tests.support import naive_reader
from tests.support.effort import DIAL
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, message_set

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("by_table", [False, True])
def test_crc32c_equals_the_naive_crc_for_every_size_and_alignment(by_table):
    data = random.Random(1).randbytes(4000)
    for size in (0, 1, 7, 8, 9, 63, 511, 512, 1535, 1536, 1537, 3080, 3990):
        for start in (0, 1, 5):
            part = memoryview(data)[start : start + size]
            assert _crc32c(part, by_table=by_table) == naive_reader.crc32c(part), (size, start)
    half = _crc32c(data[:1777], by_table=by_table)
    assert _crc32c(data[1777:], half, by_table=by_table) == naive_reader.crc32c(data)


def _crc32c(data, before=0, *, by_table):
    kernels, source = native.library(), native.Memory(data)
    function = kernels.kafkalog_crc32c_by_table if by_table else kernels.kafkalog_crc32c
    return function(source.address, source.size, before)


def test_a_library_of_other_sources_is_refused_with_the_command_that_builds_it(tmp_path):
    shutil.copytree(ROOT / "kafkalog_cli", tmp_path / "kafkalog_cli", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "native", tmp_path / "native", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "kafkalog_cli", "dump-log", "--files", *ROOT.glob("docs/example/mixed-0/*.log")]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def run(command):
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)

    assert run(command).returncode == 0
    with (tmp_path / "native" / "scan.c").open("a") as source:
        source.write("/* another version */")
    done = run(command)
    assert done.returncode == 1
    assert "was not built of the sources in this clone: python native/build.py" in done.stderr
    assert run([sys.executable, "native/build.py"]).returncode == 0
    assert run(command).returncode == 0
    shutil.rmtree(tmp_path / "native")
    (tmp_path / "kafkalog_cli" / "format" / "native.lib").write_bytes(b"no library")
    done = run(command)
    assert done.returncode == 1
    assert "does not load" in done.stderr
    assert "pip install --force-reinstall kafkalog-cli" in done.stderr


def test_without_a_compiler_the_build_names_those_that_do(tmp_path):
    shutil.copytree(ROOT / "native", tmp_path / "native")
    (tmp_path / "kafkalog_cli" / "format").mkdir(parents=True)
    command = [sys.executable, "-I", "-S", tmp_path / "native" / "build.py"]  # -S: zig may be installed here
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "needs a C compiler" in done.stderr
    assert "install gcc or clang, or `pip install ziglang`" in done.stderr
    assert not list(tmp_path.rglob("*.lib"))


@pytest.mark.parametrize("call", [
    lambda data: native.decode_batches(native.Memory(data), bytes(16), bytes(8), matrix(2), 0, matrix(2)),
    lambda data: native.decode_stored(native.Memory(data), 0, 9, matrix(2), 0, 3, matrix(2)),
    lambda data: native.decode_records(native.Memory(data), 0, 9, 1, bytes(8), None),
    lambda data: native.copy_fields(data, bytes(16), bytes(8), bytearray(24), bytearray(9)),
    lambda data: native.copy_fields(data, bytes(16), bytes(16), bytearray(16), bytearray(9)),
    lambda data: native.header_bytes(data, bytes(16), bytes(8)),
    lambda data: native.copy_headers(data, bytes(8), bytes(8), (bytes(8), bytes(16)), (b"", b""), bytes(1)),
    lambda data: native.KeyTable(4, 2, 9).mark(native.Memory(data), matrix(2), 0, 3, 0, (0, 0), bytearray(9)),
])  # fmt: skip
def test_columns_that_are_shorter_than_the_rows_are_refused(call):
    with pytest.raises(ValueError, match="needed"):
        call(bytes(64))


def matrix(rows):
    return native.new_matrix(native.BATCH_COLUMNS, rows)[1]


def some_log(chance):
    made, offset = [], 0
    for _ in range(chance.randrange(1, 8)):
        records = [
            R(
                offset + row,
                BASE_TIME_MS + row,
                chance.choice([None, b"", b"key"]),
                chance.randbytes(chance.randrange(40)),
            )
            for row in range(chance.randrange(1, 4))
        ]
        kind = chance.randrange(3)
        if kind == 0:
            made.append(batch_v2(records, chance.randrange(5), producer=(chance.randrange(9), 1, 5)))
        elif kind == 1:
            made.append(message_set(records, 1, 1))
        else:
            made += [message(record, chance.randrange(2)) for record in records]
        offset += 4
    return bytearray(b"".join(made))


def damage(chance, log):
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(log))
        how = chance.randrange(4)
        if how == 0:
            log[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            log[at : at + 4] = chance.choice([b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff", b"\x80\0\0\0"])
        elif how == 2:
            del log[at : at + chance.randrange(1, 30)]
        else:
            del log[at:]
        if not log:
            return


def naive_scan(log):
    """The batches up to the first that is not one, as long as the naive reader can unpack their headers."""
    found = []
    at = 0
    while len(log) - at > 17:
        total = 12 + int.from_bytes(log[at + 8 : at + 12], "big", signed=True)
        magic = int.from_bytes(log[at + 16 : at + 17], "big", signed=True)
        header = 61 if magic >= 2 else 26 if magic == 1 else 18
        if total < 26 or total > len(log) - at or magic < 0 or header > len(log) - at:
            break
        entry = log[at : at + total]
        if total >= 61 or magic < 2:
            (batch,) = naive_reader.read_batches(entry) if total >= 30 or magic != 1 else [None]
            found.append(None if batch is None else batch._replace(position=at))
        else:
            found.append(None)
        at += total
    return found, at


def test_random_and_damaged_logs_are_scanned_as_by_the_naive_reader():
    chance = random.Random(DIAL.rotation)
    seen = set()
    for _ in range(DIAL.part(8_000)):
        log = some_log(chance)
        damage(chance, log)
        result = native.scan(log, 0, len(log), 1 << 20)
        expected, end = naive_scan(bytes(log))
        rows = list(BatchColumns(result.columns, result.rows, result.rows).rows())
        assert len(rows) == len(expected)
        assert result.consumed_bytes == end
        for ours, theirs in zip(rows, expected, strict=True):
            if theirs is not None:
                assert ours == theirs._replace(last_offset=wrapped(theirs.last_offset))
            else:
                assert ours.valid in (0, 1)
        seen.add(result.why)
        # In windows of any size the same batches are found.
        at, again = 0, []
        for size in iter(lambda: chance.randrange(1, 200), None):
            part = native.scan(memoryview(log)[at : at + size], at, len(log), 1 << 20)
            if part.needed_bytes > size:
                part = native.scan(memoryview(log)[at : at + part.needed_bytes], at, len(log), 1 << 20)
                if part.needed_bytes > size and not part.rows:
                    part = native.scan(memoryview(log)[at:], at, len(log), 1 << 20)
            again += BatchColumns(part.columns, part.rows, part.rows).rows()
            at += part.consumed_bytes
            if not part.needed_bytes:
                break
        assert (again, part.why) == (rows, result.why)
    assert seen >= {native.SCAN_END, native.SCAN_TRAILING, native.SCAN_TOO_SMALL, native.SCAN_HEADER}


def wrapped(offset):
    return (offset + (1 << 63)) % (1 << 64) - (1 << 63)


def test_without_the_check_no_crc_is_computed():
    log = batch_v2([R(0, BASE_TIME_MS, b"k", b"v")])
    for check, valid in ((True, 1), (False, -1)):
        result = native.scan(log, 0, len(log), 1 << 20, check=check)
        assert BatchColumns(result.columns, result.rows, result.rows).row(0).valid == valid


def test_a_call_returns_at_most_so_many_batches_and_the_next_continues():
    log = message(R(0, BASE_TIME_MS, None, b""), 0) * (native.SCAN_ROWS + 10)
    first = native.scan(log, 0, len(log), 1 << 20)
    assert (first.rows, first.why) == (native.SCAN_ROWS, native.SCAN_CONTINUES)
    rest = native.scan(memoryview(log)[first.consumed_bytes :], first.consumed_bytes, len(log), 1 << 20)
    assert (rest.rows, rest.why, rest.consumed_bytes) == (10, native.SCAN_END, len(log) - first.consumed_bytes)


def test_the_sanitizers_report_nothing_of_mutated_bytes():
    """`make fuzz-native` is the long run."""
    if shutil.which("cc") is None or "/" not in built_in("libasan.so"):
        pytest.skip("there is no C compiler with a runtime of ASan")
    command = [sys.executable, ROOT / "native" / "fuzz.py", str(DIAL.part(16))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "without a report of the sanitizers" in done.stdout


def built_in(library):
    command = ["cc", f"-print-file-name={library}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def declared(name):
    """A header without its comments."""
    return re.sub(r"/\*.*?\*/", "", (ROOT / "native" / name).read_text(), flags=re.DOTALL)


def test_functions_are_declared_as_in_the_headers():
    letters = {"int64_t": "i", "uint32_t": "u", "int": "c", "void": ""}
    found = re.findall(r"EXPORT ([\w ]+[ *])(kafkalog_\w+)\(([^)]*)\)", declared("kafkalog.h") + declared("render.h"))
    wanted = {
        name: (
            letters[result.strip()],
            "".join("p" if "*" in one else letters[one.split()[0]] for one in given.split(",")),
        )
        for result, name, given in found
        if name != "kafkalog_sources"
    }
    assert wanted == native._FUNCTIONS


@pytest.mark.parametrize(("header", "name", "kind"), [
    ("kafkalog.h", "search", native._Search),
    ("kafkalog.h", "search_lane", native._SearchLane),
    ("kafkalog.h", "key_table", native._KeyTable),
    ("kafkalog.h", "growing_indexes", native.IndexState),
    ("kafkalog.h", "header_columns", native._HeaderColumns),
    ("kafkalog.h", "field_column", native._FieldColumn),
    ("render.h", "RenderInput", native._RenderInput),
    ("render.h", "RenderState", native._RenderState),
])  # fmt: skip
def test_structs_have_the_fields_of_the_headers(header, name, kind):
    bodies = re.findall(r"struct (\w*) ?\{([^}]*)\} ?(\w*);", declared(header))
    (body,) = [body for before, body, after in bodies if name in {before, after}]
    fields = [
        (re.sub(r"\[.*|\W", "", one.split()[-1]), "*" in one)
        for declaration in body.split(";")
        for one in declaration.split(",")
        if one.strip()
    ]
    pointers = {field[0] for field in kind._fields_ if field[1] is ctypes.c_void_p}
    assert fields == [(field[0], field[0] in pointers) for field in kind._fields_]
