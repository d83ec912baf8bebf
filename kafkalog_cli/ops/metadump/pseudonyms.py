"""Stand-ins for keys, texts and names: of equal size, equal for equal originals, by a secret of one run."""

from __future__ import annotations

from enum import Enum, unique
from functools import lru_cache
from hashlib import blake2b

FILLER = 0xC1
"""The byte in the place of a value. UTF-8 has no such byte, so no text of the original can appear by chance."""

_SHORT_BYTES, _DIGEST_BYTES, _ROUNDS = 8, 9, 8
_LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789"
_HIGH = 0x80


@unique
class NameKind(Enum):
    """The kinds of names; each kind has stand-ins of its own."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"


def filler(size_bytes: int) -> bytes:
    """Return the bytes that replace data without a meaning of its own."""
    return bytes((FILLER,)) * size_bytes


class Pseudonyms:
    """Stand-ins of one run. `hashes_names`: names of topics, groups and transactional ids are replaced, too."""

    def __init__(self, secret: bytes, *, hashes_names: bool) -> None:
        self._secret = secret
        self.hashes_names = hashes_names
        self._names: dict[tuple[NameKind, str], str] = {}
        self._given: set[tuple[NameKind, str]] = set()
        self.key = lru_cache(1 << 16)(self._key)
        self.hidden = lru_cache(1 << 16)(self._hidden)
        self.header_name = lru_cache(1 << 12)(self._header_name)

    def _key(self, data: bytes) -> bytes:
        """Return the stand-in of a record's key.

        Up to 8 bytes it is a permutation: different keys stay different, however short. Longer keys begin with 63 bits
        of a hash. Stand-ins of ASCII have no ASCII bytes.
        """
        size = len(data)
        if size > _SHORT_BYTES:
            return self._digest(b"key", data, _DIGEST_BYTES) + filler(size - _DIGEST_BYTES)
        if not size:
            return data
        if all(byte < _HIGH for byte in data):
            number = self._permuted(_packed(data), 7 * size)
            return bytes((number >> 7 * at & 0x7F) | _HIGH for at in range(size))
        number = int.from_bytes(data, "big")
        while True:
            number = self._permuted(number, 8 * size)
            mixed = number.to_bytes(size, "big")
            if any(byte >= _HIGH for byte in mixed):  # as the originals of this branch; not one of all ASCII
                return bytes(byte ^ _HIGH for byte in mixed)

    def _hidden(self, text: str) -> str:
        """Return letters and digits for a text that is always hidden; as many as the text has bytes in UTF-8."""
        return self._letters(b"hidden", text, 0)

    def _header_name(self, data: bytes) -> bytes:
        """Return the stand-in of a header's name, in UTF-8 without ASCII where there is room for that."""
        size = len(data)
        if size < 2:
            return b"h" * size
        digest = self._digest(b"header", data, size)
        head = chr(0x4E00 + digest[0]).encode() if size % 2 else b""
        pairs = (size - len(head)) // 2
        return head + b"".join(chr(0x400 + (digest[at] & 0x7F)).encode() for at in range(pairs))

    def name(self, kind: NameKind, text: str) -> str:
        """Return a topic, group or transactional id as it is, or its stand-in, which no other name of the kind has.

        Raises ValueError if all stand-ins of this size are given.
        """
        if not self.hashes_names or not text:
            return text
        known = self._names.get((kind, text))
        if known is not None:
            return known
        for attempt in range(10_000):
            found = self._letters(kind.value.encode(), text, attempt)
            if (kind, found) not in self._given:
                self._given.add((kind, found))
                self._names[kind, text] = found
                return found
        raise ValueError(f"too many names of {len(text.encode())} bytes to hash them")

    def _letters(self, kind: bytes, text: str, attempt: int) -> str:
        data = text.encode("utf-8", "surrogateescape")
        digest = self._digest(kind + b"%d" % attempt, data, len(data))
        return bytes(_LETTERS[byte % (26 if not at else 36)] for at, byte in enumerate(digest)).decode()

    def _digest(self, kind: bytes, data: bytes, size: int) -> bytes:
        """Return `size` bytes, each with its high bit set, that depend on all of `data`."""
        seed = blake2b(data, key=self._secret, person=kind[:16]).digest()
        found = bytearray()
        while len(found) < size:
            found += seed
            seed = blake2b(seed, key=self._secret).digest()
        return bytes(byte | _HIGH for byte in found[:size])

    def _permuted(self, number: int, bits: int) -> int:
        """Permute the numbers of `bits` bits: a Feistel network, repeated until the result has so few bits."""
        half = (bits + 1) // 2
        mask = (1 << half) - 1
        while True:
            left, right = number >> half, number & mask
            for turn in range(_ROUNDS):
                seed = b"%d %d %d" % (turn, bits, right)
                digest = blake2b(seed, key=self._secret, digest_size=8).digest()
                left, right = right, left ^ (int.from_bytes(digest, "big") & mask)
            number = left << half | right
            if number < 1 << bits:
                return number


def _packed(data: bytes) -> int:
    return sum(byte << 7 * at for at, byte in enumerate(data))
