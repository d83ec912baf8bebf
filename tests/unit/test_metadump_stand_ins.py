"""What metadump puts in the place of keys, values, names and damaged bytes: of the same size, and nothing of them."""

import struct
from itertools import product
from types import SimpleNamespace

import pytest

from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.ops.move.metadump import files
from kafkalog_cli.ops.move.metadump.internal_records import InternalRecords, NameKind, Pseudonyms, filler
from tests.support.faulty_fs import BytesFile
from tests.support.logs import R, batch_v2, message
from tests.support.naive_reader import read_batches, read_records

FIELDS = (None, b"", b"a", b"abc")


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

    class Redactor(files.BatchRedactor):
        def _rewritten(self, key, value, *, is_control):
            seen.append((key, value))
            return tuple(None if one is None else filler(len(one)) for one in (key, value))

    names = SimpleNamespace(header_name=lambda name: filler(len(name)))
    redactor = Redactor(None, names, DEFAULT_LIMITS, None, files.Counts())
    return redactor.redacted(data, batch or header_at(BytesFile(data), 0)), redactor, seen


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
        assert (len(made), redactor.counts.opaque_batches, redactor.counts.records) == (len(data), 0, count)
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
    assert (redactor.counts.opaque_batches, made[61:]) == (1, filler(len(data)))


def test_records_that_the_count_leaves_out_become_filler():
    whole = bytearray(batch_v2([R(0, 5, b"key", b"value")]))
    for count in (0, 2, -1):
        whole[57:61] = struct.pack(">i", count)
        made, redactor, _ = redacted(bytes(whole))
        assert (redactor.counts.opaque_batches, made[61:]) == (1, filler(len(whole) - 61))


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
