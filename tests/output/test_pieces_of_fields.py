"""Keys and values of large records: the small ones of them look as in small records."""

from kafkalog_cli.output.decoders import DECODERS, JAVA_PACKAGE, CannotDecode
from kafkalog_cli.output.dump_text import ClassDecoder
from kafkalog_cli.output.large_fields import LARGE_BYTES
from kafkalog_cli.output.redact import RedactingDecoder, parse_redaction

KEY, VALUE = memoryview(b"\0\0\0\7"), memoryview(b"v" * (LARGE_BYTES + 1))


def texts(decoder):
    found = decoder.pieces(0, KEY, VALUE)
    return found if isinstance(found, CannotDecode) else tuple("".join(pieces) for pieces in found)


def test_a_small_number_is_a_number_beside_a_large_value():
    assert texts(ClassDecoder(DECODERS["int"], DECODERS["string"])) == ("7", "v" * len(VALUE))


def test_classes_of_numbers_read_the_first_bytes_or_give_up():
    integer, long = DECODERS[JAVA_PACKAGE + "IntegerDecoder"], DECODERS[JAVA_PACKAGE + "LongDecoder"]
    assert texts(ClassDecoder(integer, integer)) == ("7", str(int.from_bytes(b"vvvv", "big")))
    assert isinstance(texts(ClassDecoder(long, integer)), CannotDecode)


def test_what_is_redacted_is_not_decoded():
    def never(data):
        raise AssertionError("decoded")

    redacting = RedactingDecoder(ClassDecoder(DECODERS["int"], DECODERS["string"]), parse_redaction("values=len"))
    assert texts(redacting) == ("7", f"<{len(VALUE)} bytes>")
