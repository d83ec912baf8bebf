"""Each text of docs/broker-messages is in the class of the real Kafka that the page names: its constants are read."""

import re
import struct
import zipfile
from pathlib import Path

import pytest

from tests.kafka.real_kafka import CACHE, HERE, fetch
from tests.support.product_kafka import JAVA, OPERATING_SYSTEM, messages

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


def constants_of(jars):
    wanted = {name for text in ALL for name in text.where.split(", ")}
    found = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as classes:
            for name in classes.namelist():
                simple = name.rpartition("/")[2].removesuffix(".class").partition("$")[0]
                if name.endswith(".class") and simple in wanted:
                    found.setdefault(simple, []).extend(text_constants(classes.read(name)))
    return found


@pytest.fixture(scope="module")
def constants(real_kafka, newest_kafka):
    jars = f"{real_kafka.class_path}:{newest_kafka.class_path}".split(":")
    return constants_of(jar for jar in jars if "kafka" in Path(jar).name and jar.endswith(".jar"))


def is_said(text, constants):
    """Whether one constant has all parts in order: the JVM joins strings by a recipe, slf4j and format by their own marks."""
    pattern = re.compile(f"({MARK})".join(map(re.escape, text.split("{}"))))
    return any(pattern.search(constant) or is_one_of(text, constant) for constant in constants)


def is_one_of(text, constant):
    """Whether a text is a constant of three words or more with a value in place of its marks."""
    parts = re.split(MARK, constant)
    return len("".join(parts).split()) >= 3 and re.fullmatch(".+".join(map(re.escape, parts)), text) is not None


@pytest.mark.parametrize("text", [text for text in ALL if not text.until], ids=lambda text: text.text[:50])
def test_the_classes_of_kafka_contain_each_documented_broker_message(text, constants):
    assert any(is_said(text.text, constants.get(name, [])) for name in text.where.split(", "))


FORMER = "3.6.2"


@pytest.fixture(scope="module")
def former_constants():
    jars = CACHE / f"kafka-{FORMER}"
    fetch(jars, HERE / "kafka-server-pom.xml", f"-Dkafka.version={FORMER}")
    return constants_of([jars / f"kafka_2.13-{FORMER}.jar"])


@pytest.mark.parametrize("text", [text for text in ALL if text.until], ids=lambda text: text.text[:50])
def test_a_former_kafka_says_it_and_today_s_does_not(text, constants, former_constants):
    """Scala joins a text at run time: each part of it between two values is one constant, or several in a row."""
    assert text.until == FORMER.rpartition(".")[0]
    assert not is_said(text.text, constants.get(text.where, []))
    known = {one.strip(" `'\n") for one in former_constants[text.where] if len(one.strip(" `'\n")) > 1}
    whole = re.compile(rf"(?:(?:{'|'.join(map(re.escape, sorted(known, key=len, reverse=True)))})[ `']*)+")
    assert all(whole.fullmatch(part.strip()) for part in text.text.split("{}") if part.strip(" .")), text.text


def test_a_text_that_kafka_does_not_say_is_noticed(constants):
    assert not is_said("Corruption found in the segment {}, truncating to offset {}", constants["LogLoader"])
