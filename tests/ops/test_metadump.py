"""`metadump`: nothing of the data is in the copy, and verify finds the same in it."""

import random
import struct
from collections import Counter
from itertools import product

import pytest

import kafkalog_cli as kl
from kafkalog_cli.format.compression import compress, decompress
from kafkalog_cli.format.compression.exact_size import compress_to
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.ops.metadump import files
from kafkalog_cli.ops.metadump.copying import metadump
from kafkalog_cli.ops.metadump.internal_records import InternalRecords, NameKind, Pseudonyms, filler
from tests.support.faulty_fs import BytesFile
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, message_set
from tests.support.naive_reader import read_batches, read_records
from tests.support.product import KafkalogError, RealFilesystem, Refused, UsageError

WORDS = [b"alice@example.org", b"Wonderland 42", b"secret", b"4711", b"cust-0007"]
FS = RealFilesystem()


def found(path):
    """All findings of verify --level deep, with the paths below `path`."""
    results = kl.verify(path, level="deep").results
    return Counter(
        (each.path[len(str(path)) :], one.kind, str(one.path)[len(str(path)) :], one.position, one.severity)
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
def test_nothing_of_the_data_is_in_the_copy(kind, tmp_path):
    rng = random.Random(f"{kind} 2")
    source = log_dir(tmp_path / "logs", rng, [kind], "none")
    made = metadump(FS, [str(source)], str(tmp_path / "out"))
    assert (made.partitions, made.counts.opaque_batches) == (1, 0)
    assert made.counts.records > 8
    (log,) = (tmp_path / "out" / "orders-0").glob("*.log")
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
def test_damage_is_the_same_damage(damage, seed, tmp_path):
    rng = random.Random(f"{damage} {seed}")
    source = log_dir(tmp_path / "logs", rng, [(2, codec) for codec in range(5)], damage)
    metadump(FS, [str(source)], str(tmp_path / "out"))
    wanted, mine = found(source), found(tmp_path / "out")
    shallow = {one for one in wanted if "decompress" not in str(one[1]) and "record" not in str(one[1])}
    assert shallow <= set(mine), "the same damage at the same places"
    raw = (tmp_path / "out" / "orders-0" / f"{0:020d}.log").read_bytes()
    assert not any(word in raw for word in WORDS)


def test_what_real_brokers_wrote(corpus, tmp_path):
    """The findings are the same, but for batches that could not be compressed to their size: few, and counted."""
    batches = opaque = 0
    for number, data in enumerate(sorted({path.parent.parent for path in corpus.rglob("*.log")})[::5]):
        out = tmp_path / f"out{number}"
        try:
            made = metadump(FS, [str(data)], str(out))
        except KafkalogError:
            continue  # not a log directory, or Kafka 0.7
        assert made.counts.opaque_records == 0
        mine, wanted = found(out), found(data)
        assert not wanted - mine
        assert sum((mine - wanted).values()) <= made.counts.opaque_batches
        batches, opaque = batches + made.counts.batches, opaque + made.counts.opaque_batches
        for path in data.rglob("*"):
            if path.is_file() and path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
                assert (out / path.relative_to(data)).read_bytes() == path.read_bytes()
    assert batches > 50
    assert opaque < batches / 50


def test_names_are_hashed_on_request(tmp_path):
    from tests.spark.test_export_command import kafkalog

    shop = tmp_path / "shop"
    assert kafkalog("demo", shop)[0] == 0
    made = kl.metadump(shop, tmp_path / "out", hash_names=True)
    assert made.hashes_names
    assert {kind for _, kind, *_ in found(tmp_path / "out")} == {kind for _, kind, *_ in found(shop)}
    raw = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    names = "".join(str(path) for path in (tmp_path / "out").rglob("*"))
    for word in ("orders", "billing"):  # the ids of other topics are their names
        assert word.encode() not in raw
        assert word not in names.removeprefix(str(tmp_path))
    assert (tmp_path / "out" / "__consumer_offsets-9").is_dir()
    assert sum(path.name.endswith("-2") for path in (tmp_path / "out").iterdir()) == 1


def test_a_copy_is_complete_or_not_there(tmp_path, monkeypatch):
    source = log_dir(tmp_path / "logs", random.Random(1), [(2, 0)], "none")
    (source / "replication-offset-checkpoint").write_text("0\n1\norders 0 5\n")
    with pytest.raises(Refused, match="which is a broker's"):
        metadump(FS, [str(source)], str(source / "copy"))
    with pytest.raises(UsageError):
        metadump(FS, [], str(tmp_path / "out"))
    with monkeypatch.context() as patch:
        patch.setattr(RealFilesystem, "set_attributes", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
        with pytest.raises(KafkalogError):
            metadump(FS, [str(source)], str(tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    metadump(FS, [str(source)], str(tmp_path / "out"))
    with pytest.raises(Refused, match="already exists"):
        metadump(FS, [str(source)], str(tmp_path / "out"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_streams_of_an_exact_size(codec, seed):
    rng = random.Random(f"{codec} {seed}")
    for size in (100, 900, 20_000, 150_000):
        data = b"".join(rng.randbytes(rng.randrange(2, 9)) + b"\xc1" * rng.randrange(40) for _ in range(size // 20))
        least = len(compress(codec, data))
        for more in (0, 1, 2, 3, 7, 8, 15, 16, rng.randrange(max(len(data) - least, 20))):
            made = compress_to(codec, data, least + more, magic=2)
            if made is None:  # rare, and counted by the command as opaque
                assert codec in (2, 3)
                continue
            assert len(made) == least + more
            assert decompress(codec, made, magic=2, limits=DEFAULT_LIMITS) == data


def test_stand_ins_of_keys():
    names = Pseudonyms(b"s" * 32, hashes_names=True)
    for size in (1, 2):
        keys = [number.to_bytes(size, "big") for number in range(256**size)][:5000]
        made = [names.key(key) for key in keys]
        assert len(set(made)) == len(keys)
        assert {len(one) for one in made} == {size}
    assert names.key(b"a-long-key-1") != names.key(b"a-long-key-2")
    assert len({names.name(NameKind.TOPIC, chr(97 + at)) for at in range(20)}) == 20
    with pytest.raises(ValueError, match="too many names of 1 bytes"):
        [names.name(NameKind.TOPIC, chr(at)) for at in range(33, 127)]


@pytest.mark.parametrize("size", range(4))
def test_metadata_of_another_protocol_is_hidden_however_short_it_is(size):
    """ConsumerProtocolSubscription is the usual content of the field, but a group may have any protocol."""
    internal = InternalRecords(Pseudonyms(b"s" * 32, hashes_names=False))
    for data in (b"a" * size, bytes(size), bytes(size)[:-1] + b"a"[:size]):
        assert internal._embedded("ConsumerProtocolSubscription", data) == filler(size)
    assert internal.opaque == 0


def test_how_much_of_damage_is_the_head_of_a_batch():
    """Of a plausible offset: up to the magic, with the fields after it where they are known."""
    heads = {0: 18, 1: 26, 2: 61}
    for size, known in ((0, False), (1, True), ((1 << 27) - 1, True), (1 << 27, False), (-1, False)):
        for magic in (0, 1, 2, 3):
            piece = struct.pack(">qiib", 5, size, 0, magic)
            assert files._head_bytes(piece, None) == heads.get(magic, 17 if known else 0)
    for offset, last, is_near in (
        (-1, None, False), (0, None, True), (5, 5, False), (6, 5, True), (4 + 2**31, 5, True), (5 + 2**31, 5, False),
    ):  # fmt: skip
        assert files._head_bytes(struct.pack(">qiib", offset, 9, 0, 2), last) == (61 if is_near else 0)
    assert [files._head_bytes(bytes(size), None) for size in (0, 11, 12, 16)] == [0, 11, 12, 12]


def redacted(data, batch=None):
    """A batch with other contents, the redactor, and the (key, value) that it replaced."""
    seen = []

    def rewrite(key, value, is_control):
        seen.append((key, value))
        return tuple(None if one is None else filler(len(one)) for one in (key, value))

    redactor = files.BatchRedactor(rewrite, lambda name: filler(len(name)), DEFAULT_LIMITS)
    return redactor.redacted(data, batch or header_at(BytesFile(data), 0)), redactor, seen


FIELDS = (None, b"", b"a", b"abc")


@pytest.mark.parametrize("magic", [0, 1])
def test_a_set_is_replaced_message_by_message(magic):
    for key, value in product(FIELDS, FIELDS):
        parts = [message(R(at, 5, key, value), magic) for at in range(2)]
        _, redactor, _ = redacted(parts[0])
        made = redactor._message_set(b"".join(parts))
        assert made == b"".join(redacted(part)[0] for part in parts)
        for data in (made[:-1], made + b"x", made + bytes(26), message(R(0, 5, key, value), magic, codec=1)):
            with pytest.raises(files._Unparsable):
                redactor._message_set(data)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_fields_of_any_size_are_replaced_in_their_places(magic):
    """Also where the smallest message, or an empty or null value, ends a batch."""
    for key, value in product(FIELDS, FIELDS):
        records = [R(at, 5, key, value) for at in range(2)]
        if magic == 2:
            headers = ((b"", None), (b"h", b""), (b"name", b"v"))
            data = batch_v2([one._replace(headers=headers[: at + 2]) for at, one in enumerate(records)])
        else:
            data = message(records[0], magic)
        made, redactor, seen = redacted(data)
        count = 2 if magic == 2 else 1
        assert (len(made), redactor.opaque, redactor.records) == (len(data), 0, count)
        assert seen == [(key, value)] * count
        (batch,) = read_batches(made)
        assert batch.valid
        for record in read_records(made, batch):
            assert (record.key, record.value) == tuple(
                None if one is None else filler(len(one)) for one in (key, value)
            )


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x02", b"\x0c\0\0\0\x01\x01", b"\x0c\0\0\0\x01\x01\0\0"])
def test_records_that_do_not_fit_become_filler(data):
    whole = bytearray(batch_v2([R(0, 5, None, None)]))
    batch = header_at(BytesFile(bytes(whole)), 0)
    whole[61:] = data
    made, redactor, _ = redacted(bytes(whole), batch)
    assert (redactor.opaque, made[61:]) == (1, filler(len(data)))


def test_records_that_the_count_leaves_out_become_filler():
    whole = bytearray(batch_v2([R(0, 5, b"key", b"value")]))
    for count in (0, 2, -1):
        whole[57:61] = struct.pack(">i", count)
        made, redactor, _ = redacted(bytes(whole))
        assert (redactor.opaque, made[61:]) == (1, filler(len(whole) - 61))


def test_stand_ins_have_the_size_of_their_originals():
    names = Pseudonyms(b"s" * 32, hashes_names=True)
    for size in range(1, 14):
        for data in (b"k" * size, b"\x80" * size, b"\x7f" * size):
            assert len(names.key(data)) == size
            assert names.key(data) != data
        assert len({names.key(bytes((at,)) + bytes(size - 1)) for at in range(256)}) == 256
        header = names.header_name(b"n" * size)
        assert len(header) == size
        assert header.isascii() == (size < 2)


def test_no_bit_of_a_short_key_is_left():
    """Of some keys each bit is another one in the stand-in; also where the bits have no halves of one size."""
    names = Pseudonyms(b"s" * 32, hashes_names=True)
    for size in (1, 2, 3):
        changed = [0] * size
        for number in range(64):
            key = bytes((number * 2 + at & 0x7F) for at in range(size))
            changed = [bits | (old ^ new) for bits, old, new in zip(changed, key, names.key(key), strict=True)]
        assert changed == [0xFF] * size


def test_batches_with_wrong_checksums_count_if_the_chain_holds():
    good = batch_v2([R(0, 5)])
    bad = good[:-1] + bytes((good[-1] ^ 1,))
    for parts in ([bad, bad, good], [bad, good, bad, bad], [bad, bad]):
        found = files._batches(BytesFile(b"".join(parts)), DEFAULT_LIMITS)
        assert [one.position for one in found] == [at * len(good) for at in range(len(parts))]


@pytest.mark.parametrize(
    ("data", "kept"),
    [(None, None), (b"", b""), (b"\0", filler(1)), (b"\0\1", b"\0\1"), (b"\0\1a", b"\0\1" + filler(1))],
)
def test_the_type_and_the_version_of_a_coordinators_record_stay(data, kept):
    """Also those of a record without anything else: its copy is as damaged."""
    internal = InternalRecords(Pseudonyms(b"s" * 32, hashes_names=False))
    assert internal.coordinator("__consumer_offsets", b"\0\1", data) == (b"\0\1", kept)
    assert internal.coordinator("__consumer_offsets", data, None) == (kept, None)
