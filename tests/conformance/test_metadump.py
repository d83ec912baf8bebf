"""`metadump`: nothing of the data is in the copy, and verify finds the same in it."""

import random
from collections import Counter
from types import SimpleNamespace

import pytest

import kafkalog_cli as kl
from tests.support.commands import json_of
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, message_set
from tests.support.product import RealFilesystem

WORDS = [b"alice@example.org", b"Wonderland 42", b"secret", b"4711", b"cust-0007"]


def metadump(source, out, *options):
    """What the command prints about the copy."""
    code, (made, _), _ = json_of("metadump", source, out, *options)
    assert code == 0
    return SimpleNamespace(**made)


def refused(*argv):
    code, _, err = json_of("metadump", *argv)
    return code, next((one["message"] for one in err if one["type"] == "error"), "")


def found(path):
    """All findings of verify --level deep, with the paths below `path`; positions may move in a copy."""
    results = kl.verify(path, level="deep").results
    return Counter(
        (each.path[len(str(path)) :], one.kind, str(one.path)[len(str(path)) :], one.severity)
        for each in results
        for one in each.findings
    )


def rows(path):
    """All records of the partition, as dictionaries."""
    return [row for batch in kl.open_partition(path / "orders-0").records() for row in batch.to_pylist()]


def records(rng, first, count):
    return [
        R(
            first + at,
            BASE_TIME_MS + first + at,
            rng.choice([None, b"", b"k", *WORDS]),
            rng.choice([None, b"", b" ".join(rng.choices(WORDS, k=rng.randrange(1, 9)))]),
            ((b"trace-id", rng.choice(WORDS)),) if rng.random() < 0.3 else (),
        )
        for at in range(count)
    ]


def written(rng, magic, codec, first, count):
    made = records(rng, first, count)
    if magic == 2:
        return batch_v2(made, codec)
    made = [one._replace(headers=()) for one in made]
    return message_set(made, magic, codec) if codec else b"".join(message(one, magic) for one in made)


SIZES_CHANGE = (2, 3)
"""Snappy and lz4."""
KINDS = [(2, codec) for codec in range(5)] + [(magic, codec) for magic in (0, 1) for codec in range(4)]


def log_dir(path, rng, kinds, damage):
    partition = path / "orders-0"
    partition.mkdir(parents=True)
    data, first = b"", 0
    for _ in range(8):
        count = rng.randrange(25, 40)  # a few records may have no form of their old size
        magic, codec = rng.choice(kinds)
        data += written(rng, magic, codec, first, count)
        first += count
    if damage == "torn":
        data = data[: -rng.randrange(1, 60)]
    elif damage == "flip":
        at = rng.randrange(len(data))
        data = data[:at] + bytes((data[at] ^ 1 << rng.randrange(8),)) + data[at + 1 :]
    elif damage == "zeros":
        data += bytes(100)
    (partition / f"{0:020d}.log").write_bytes(data)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_metadump_contains_no_key_value_or_header(kind, tmp_path):
    rng = random.Random(f"{kind} 2")
    source = log_dir(tmp_path / "logs", rng, [kind], "none")
    made = metadump(source, tmp_path / "out")
    assert (made.partitions, made.opaque_batches) == (1, 0)
    assert made.records > 8
    (log,) = (tmp_path / "out" / "orders-0").glob("*.log")
    if kind[1] not in SIZES_CHANGE:
        assert log.stat().st_size == (source / "orders-0" / log.name).stat().st_size
    assert found(tmp_path / "out") == found(source)
    code_of, originals = rows(tmp_path / "out"), rows(source)
    assert [one["offset"] for one in code_of] == [one["offset"] for one in originals]
    stand_ins = {}
    for mine, original in zip(code_of, originals, strict=True):
        assert mine["timestamp"] == original["timestamp"]
        for name in ("key", "value"):
            sizes = [None if one[name] is None else len(one[name]) for one in (mine, original)]
            assert sizes[0] == sizes[1]
            assert not mine[name] or mine[name] != original[name]
        assert stand_ins.setdefault(original["key"], mine["key"]) == mine["key"], "equal keys stay equal"
        seen = b"\0".join(part or b"" for part in (mine["key"], mine["value"])) + repr(mine["headers"]).encode()
        assert not any(word in seen for word in [*WORDS, b"trace-id"])
    assert len(set(stand_ins.values())) == len(stand_ins), "different keys stay different"
    raw = log.read_bytes()
    assert not any(word in raw for word in [*WORDS, b"trace-id"])


@pytest.mark.parametrize("damage", ["torn", "flip", "zeros"])
@pytest.mark.parametrize("seed", range(8))
def test_verify_finds_in_a_metadump_the_damage_of_its_source(damage, seed, tmp_path):
    rng = random.Random(f"{damage} {seed}")
    source = log_dir(tmp_path / "logs", rng, [(2, codec) for codec in range(5)], damage)
    metadump(source, tmp_path / "out")
    wanted, mine = found(source), found(tmp_path / "out")
    shallow = {one for one in wanted if "decompress" not in str(one[1]) and "record" not in str(one[1])}
    assert shallow <= set(mine), "the same damage"
    raw = (tmp_path / "out" / "orders-0" / f"{0:020d}.log").read_bytes()
    assert not any(word in raw for word in WORDS)


def batches_of_entries(index):
    """The base offset at the position of each entry, as far as entries point into the log."""
    entries, log = index.read_bytes(), index.with_suffix(".log").read_bytes()
    positions = [int.from_bytes(entries[at + 4 : at + 8], "big") for at in range(0, len(entries) - 7, 8)]
    return [log[at : at + 8] for at in positions if at < len(log)]


def test_verify_finds_in_a_metadump_of_broker_logs_what_it_finds_in_them(corpus, tmp_path):
    """The findings are the same. Index entries point at the same batches, where sizes have changed too."""
    batches = moved = 0
    for number, data in enumerate(sorted({path.parent.parent for path in corpus.rglob("*.log")})[::5]):
        out = tmp_path / f"out{number}"
        code, printed, _ = json_of("metadump", data, out)
        if code != 0:
            continue  # not a log directory, or Kafka 0.7
        made = SimpleNamespace(**printed[0])
        assert made.opaque_records == 0
        mine, wanted = found(out), found(data)
        assert mine == wanted
        batches += made.batches
        for path in data.rglob("*"):
            if path.is_file() and path.suffix in (".timeindex", ".txnindex", ".snapshot"):
                assert (out / path.relative_to(data)).read_bytes() == path.read_bytes()
            elif path.suffix == ".index" and (log := path.with_suffix(".log")).exists():
                copied = out / path.relative_to(data)
                has_moved = copied.with_suffix(".log").stat().st_size != log.stat().st_size
                moved += has_moved
                if not has_moved:
                    assert copied.read_bytes() == path.read_bytes()
                assert batches_of_entries(copied) == batches_of_entries(path)
    assert batches > 50
    assert moved > 3


def test_a_metadump_that_fails_leaves_no_part_of_a_copy(tmp_path, monkeypatch):
    source = log_dir(tmp_path / "logs", random.Random(1), [(2, 0)], "none")
    (source / "replication-offset-checkpoint").write_text("0\n1\norders 0 5\n")
    code, message = refused(source, source / "copy")
    assert (code, "which is a broker's" in message) == (14, True)
    assert refused(tmp_path / "out")[0] == 2
    with monkeypatch.context() as patch:
        patch.setattr(RealFilesystem, "set_attributes", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
        assert refused(source, tmp_path / "out")[0] == 13
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    metadump(source, tmp_path / "out")
    code, message = refused(source, tmp_path / "out")
    assert (code, "already exists" in message) == (14, True)


def test_metadump_hashes_topic_names_if_the_option_is_given(corpus, tmp_path):
    shop = corpus / "internal" / "data"
    assert metadump(shop, tmp_path / "out", "--hash-names").names_hashed
    assert {kind for _, kind, *_ in found(tmp_path / "out")} == {kind for _, kind, *_ in found(shop)}
    raw = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    names = "".join(str(path) for path in (tmp_path / "out").rglob("*"))
    for word in ("in-a", "g-classic", "g-static", "tx-open"):
        assert word.encode() not in raw
        assert word not in names.removeprefix(str(tmp_path))
    assert (tmp_path / "out" / "__consumer_offsets-0").is_dir()
