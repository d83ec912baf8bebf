"""Each text of docs/broker-messages is in the class of the real Kafka that the page names: its constants are read."""

import re
import struct
import zipfile
from pathlib import Path

import pytest

from kafkalog_cli.ops.doctor.broker_pages import JAVA, OPERATING_SYSTEM, messages

# Sizes after the tag of a class file's constants (JVM specification, 4.4); of UTF-8 constants, tag 1, the length is in the file.
SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
TWO_SLOTS = (5, 6)

MARK = r"\x01|\{\}|%s|%d"
ALL = [text for message in messages() for text in message.texts if text.where not in (OPERATING_SYSTEM, JAVA)]


def text_constants(class_file):
    count, position, index = struct.unpack_from(">H", class_file, 8)[0], 10, 1
    while index < count:
        tag = class_file[position]
        if tag == 1:
            length = struct.unpack_from(">H", class_file, position + 1)[0]
            yield class_file[position + 3 : position + 3 + length].decode("utf-8", "replace")
            position += 3 + length
        else:
            position += 1 + SIZES[tag]
        index += 2 if tag in TWO_SLOTS else 1


@pytest.fixture(scope="module")
def constants(real_kafka, newest_kafka):
    wanted = {name for text in ALL for name in text.where.split(", ")}
    found = {}
    for jar in f"{real_kafka.class_path}:{newest_kafka.class_path}".split(":"):
        if "kafka" in Path(jar).name and jar.endswith(".jar"):
            with zipfile.ZipFile(jar) as classes:
                for name in classes.namelist():
                    simple = name.rpartition("/")[2].removesuffix(".class").partition("$")[0]
                    if name.endswith(".class") and simple in wanted:
                        found.setdefault(simple, []).extend(text_constants(classes.read(name)))
    return found


def is_said(text, constants):
    """Whether one constant has all parts in order: the JVM joins strings by a recipe, slf4j and format by their own marks."""
    pattern = re.compile(f"({MARK})".join(map(re.escape, text.split("{}"))))
    return any(pattern.search(constant) or is_one_of(text, constant) for constant in constants)


def is_one_of(text, constant):
    """Whether a text is a constant of three words or more with a value in place of its marks."""
    parts = re.split(MARK, constant)
    return len("".join(parts).split()) >= 3 and re.fullmatch(".+".join(map(re.escape, parts)), text) is not None


@pytest.mark.parametrize("text", ALL, ids=lambda text: text.text[:50])
def test_kafka_says_it(text, constants):
    assert any(is_said(text.text, constants.get(name, [])) for name in text.where.split(", "))


def test_a_text_that_kafka_does_not_say_is_noticed(constants):
    assert not is_said("Corruption found in the segment {}, truncating to offset {}", constants["LogLoader"])
