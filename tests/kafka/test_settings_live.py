"""Settings against the real classes: LogConfig's table and legal values, precedence, Properties, checkpoints."""

import base64
import random
import subprocess

import pytest

from tests.kafka.real_kafka import JAVA
from tests.support.product import RealFilesystem, UsageError
from tests.support.product_kafka import (
    BROKER_KEYS,
    TOPIC_KEYS,
    FileKind,
    LineEdit,
    NumberRange,
    Origin,
    change_lines,
    config_text,
    encode_offsets,
    parse_config,
    parse_properties,
    read_broker_properties,
    resolve,
)

pytestmark = pytest.mark.exhaustive

FS = RealFilesystem()
LAYERS = (Origin.TOPIC, Origin.DYNAMIC_BROKER, Origin.DYNAMIC_DEFAULT_BROKER, Origin.STATIC_BROKER)
SINCE_4_4 = {"errors.deadletterqueue.group.enable", "max.decompressed.message.bytes", "remote.copy.lag.bytes", "remote.copy.lag.ms"}  # fmt: skip


@pytest.fixture(scope="module")
def topic_keys(real_kafka):
    """The topic-level settings that this version of Kafka has."""
    is_new = real_kafka.version.schemas >= (4, 4)
    return {name: row for name, row in TOPIC_KEYS.items() if is_new or name not in SINCE_4_4}


@pytest.fixture(scope="module")
def ask(real_kafka):
    """Questions (tuples of words) to answers: rows of cells, or the text of the error."""

    def put(questions):
        done = subprocess.run(
            [*JAVA, "-Xmx512m", "-cp", real_kafka.class_path, "TopicSettings"],
            input="".join("\t".join(words) + "\n" for words in questions),
            text=True,
            capture_output=True,
            check=True,
        )
        answers, rows = [], []
        for line in done.stdout.splitlines():
            if line != ".":
                rows.append(line.split("\t"))
                continue
            answers.append(rows[0][1] if rows and rows[0][0] == "error" else rows)
            rows = []
        assert len(answers) == len(questions), done.stderr[-500:]
        return answers

    return put


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def decoded(text):
    return base64.b64decode(text).decode("utf-16-be", "surrogatepass")


def valid_text(valid):
    """Legal values as ConfigDef prints them; our one difference from 4.2 is how small a segment may be."""
    if valid is None:
        return ""
    if isinstance(valid, NumberRange):
        least = 1 << 20 if valid.least == 14 else valid.least
        if valid.also is not None:
            return f"[{least},...,{valid.most}] or {valid.also}"
        return f"[{least},...]" if valid.most is None else f"[{least},...,{valid.most}]"
    words = getattr(valid, "words", None)
    return f"[{', '.join(words)}]" if words else "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


def row_of(key, more, valid=None):
    default = "null" if key.default is None else config_text(key.default)
    return [key.name, key.type.name, default, valid_text(key.valid) if valid is None else valid, *more]


def test_the_table_of_topic_settings_equals_kafkas(ask, topic_keys):
    (real,) = ask([("topic-table",)])
    ours = []
    for _, row in sorted(topic_keys.items()):
        names = " ".join(f"{behind.name}={behind.in_topic_units(3)}" for behind in row.broker_names)
        ours.append(row_of(row, (config_text(row.is_internal), names)))
    assert ours == real
    assert len(ours) >= 34


def test_the_table_of_broker_settings_equals_kafkas(ask, topic_keys):
    ours = [behind for row in topic_keys.values() for behind in row.broker_names]
    ours += BROKER_KEYS.values()
    (real,) = ask([("broker-table", *(row.name for row in ours))])
    # KafkaConfig has rules of its own for these, beside ConfigDef's, which `test_settings_of_all_layers_resolve_as_in_kafka` tries.
    own = ("log.retention.ms", "log.retention.minutes", "log.retention.hours", "log.roll.ms", "log.roll.jitter.ms")
    own += ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")  # here it is LogConfig's
    for row, found in zip(ours, real, strict=True):
        valid = "" if row.name in own else None
        assert row_of(row, (config_text(row.is_dynamic),), valid) == found


TEXTS = ["", " ", "0", "1", "-1", "-2", "+5", " 7 ", "007", "5.0", "x", "1e3", ".5", "1.", "0x1p-2", "0x.8p1d", "NaN", "-Infinity", "1f", "1e400",
         "9223372036854775807", "9223372036854775808", "2147483647", "2147483648", "-131073", "22", "23", "10", "1_0", "\u0665",
         "true", "TRUE", "fal\u017fe", "yes", "delete", "compact,delete", "compact , delete", "delete,delete", ",", "delete,",
         "Delete", "gzip", "GZIP", "CreateTime", "createtime", "*", "1:2,3:4", "1:2,", "*,*", "a:b", "1 : 2", "1:2,1:2", "\x00\x1f5\x01", "5\u00a0", "inf", "nan"]  # fmt: skip


def test_topic_settings_are_parsed_as_by_kafka(ask, topic_keys):
    tried = [(name, text) for name in topic_keys for text in TEXTS]
    answers = ask([("parse", name, encoded(text)) for name, text in tried])
    legal = 0
    for (name, text), real in zip(tried, answers, strict=True):
        try:
            ours = parse_config(TOPIC_KEYS[name], text)
        except ValueError:
            ours = None
        if isinstance(real, str):
            small = name == "segment.bytes" and isinstance(ours, int) and 14 <= ours < 1 << 20
            assert ours is None or small, (name, text, ours)
        else:
            assert config_text(ours) == decoded(real[0][0]), (name, text)
            legal += 1
    assert legal > 300


def random_value(chance, key, wrong=()):
    """Mostly legal, and never a segment that only older brokers take."""
    if chance.random() < 0.04 and wrong:
        return chance.choice(wrong)
    if key.name.endswith("segment.bytes"):
        return str(chance.randrange(1 << 20, 1 << 22))
    kind = key.type.name
    if kind == "LIST":
        policies = "policy" in key.name
        return chance.choice(["compact", "delete", "compact, delete", ""] if policies else ["*", "0:1,1:2", ""])
    if kind == "STRING":
        return chance.choice(key.valid.words)
    if kind == "BOOLEAN":
        return chance.choice(["true", "false", "True"])
    if kind == "DOUBLE":
        return chance.choice(["0.1", "0.9", "1e-2"])
    if "lag.ms" in key.name:  # the least may not be above the most
        return str(chance.randrange(1, 10) if "min" in key.name else chance.randrange(10, 99))
    most = getattr(key.valid, "most", None) or (99 if "threads" in key.name else 900)
    no_limit = key.name in ("log.retention.ms", "log.retention.hours", "log.retention.minutes", "log.retention.bytes")
    return str(chance.choice([-5, -1]) if no_limit and chance.random() < 0.3 else chance.randrange(1, most))


def random_layers(chance, topic_keys):
    """What a broker's controller lets through, and in server.properties everything.

    A value that ConfigDef refuses counts as not there in the metadata log; one that KafkaConfig refuses (0 as a limit)
    would make a broker pass over all others too. Only the strongest name of a setting is wrong: of the weaker ones a
    broker refuses what is wrong, and we do not look at it.
    """
    behind = [row.broker_names for row in topic_keys.values() if row.broker_names]
    behind += [(BROKER_KEYS["producer.id.expiration.ms"],), (BROKER_KEYS["log.cleaner.threads"],)]
    own = {key.name: random_value(chance, key) for key in topic_keys.values() if chance.random() < 0.2}
    own.pop("min.compaction.lag.ms", None)
    layers = [
        {
            name.name: random_value(chance, name, wrong if name is names[0] else ())
            for names in behind
            for name in names
            if chance.random() < share
        }
        for share, wrong in ((0.15, ["x", ""]), (0.15, ["x", ""]), (0.3, ["x", "", "-3", "1.5", "0"]))
    ]
    return dict(zip(LAYERS, (own, *layers), strict=True))


def write(path, texts):
    path.write_text("".join(f"{name}={text}\n" for name, text in texts.items()))
    return str(path)


def test_settings_of_all_layers_resolve_as_in_kafka(ask, topic_keys, tmp_path):
    chance = random.Random(4)
    cases = [random_layers(chance, topic_keys) for _ in range(400)]
    questions, static = [], []
    for at, layers in enumerate(cases):
        topic, broker, default, properties = layers.values()
        static.append(write(tmp_path / f"{at}.static", properties))
        others = [write(tmp_path / f"{at}.{i}", texts) for i, texts in enumerate((default, broker, topic))]
        questions.append(("resolve", static[-1], *others))
    same = refused = 0
    for at, (layers, real) in enumerate(zip(cases, ask(questions), strict=True)):
        if isinstance(real, str):
            # Only a value in the file may be at fault, and then we refuse the file too.
            with pytest.raises(UsageError):
                read_broker_properties(FS, static[at])
            refused += 1
            continue
        # A weaker name with a wrong value, behind a stronger one of the same setting, stops a broker too: `refused`.
        assert read_broker_properties(FS, static[at]) == {**layers[Origin.STATIC_BROKER]}
        config = resolve("t", layers)
        found = dict(real)
        for name in topic_keys:
            setting = config[name]
            assert setting.text == decoded(found.pop(name)), (name, layers)
        ours = {
            "segmentSize": config.segment_bytes,
            "maxSegmentMs": config.max_segment_ms,
            "localRetentionMs": config.local_retention_ms,
            "producer.id.expiration.ms": config.producer_id_expiration_ms,
            "log.cleaner.threads": config.cleaner_threads,
        }
        assert {name: str(value) for name, value in ours.items()} == found
        same += 1
    print(f"{same} resolved alike, {refused} files refused by both")
    assert same > 150
    assert refused > 50


def random_properties(chance):
    words = ["a", "b", "=", ":", " ", "\t", "\f", "\\", "\\\n", "\\\r\n", "\n", "\r", "\r\n", "#", "!", "\\u0041", "\\u00", "\\t", "\\n",
             "\\\\", "é", "\\ud83d\\ude00", "\\=", "\\ ", "retention.ms", "1"]  # fmt: skip
    return "".join(chance.choice(words) for _ in range(chance.randrange(1, 25))).encode("latin-1")


def test_properties_files_are_parsed_as_by_java(ask, tmp_path):
    chance = random.Random(5)
    files = [random_properties(chance) for _ in range(3000)]
    for at, data in enumerate(files):
        (tmp_path / str(at)).write_bytes(data)
    malformed = 0
    for data, real in zip(
        files, ask([("properties", str(tmp_path / str(at))) for at in range(len(files))]), strict=True
    ):
        if isinstance(real, str):
            with pytest.raises(ValueError, match="Malformed"):
                parse_properties(data)
            malformed += 1
        else:
            assert parse_properties(data) == {decoded(key): decoded(value) for key, value in real}, data
    assert 100 < malformed < 2000


def test_a_broker_reads_the_checkpoints_that_we_change(ask, tmp_path):
    chance = random.Random(6)
    questions, expected = [], []
    for at in range(200):
        folder = tmp_path / str(at)
        folder.mkdir()
        lines = {
            (chance.choice("abc") + "-ä", chance.randrange(3)): chance.randrange(2**63)
            for _ in range(chance.randrange(8))
        }
        path = folder / FileKind.RECOVERY_POINT_CHECKPOINT.value
        path.write_bytes(encode_offsets([(*place, offset) for place, offset in lines.items()]) if lines else b"")
        wanted = [
            LineEdit(
                FileKind.RECOVERY_POINT_CHECKPOINT,
                chance.choice("abc") + "-ä",
                chance.randrange(3),
                chance.choice([None, 0, 7]),
            )
            for _ in range(3)
        ]
        wanted = list({edit[:3]: edit for edit in wanted}.values())
        change_lines(FS, str(folder), wanted)
        for _, topic, partition, offset in wanted:
            lines.pop((topic, partition), None)
            if offset is not None:
                lines[topic, partition] = offset
        questions.append(("checkpoint", str(path)))
        expected.append(lines)
    for lines, real in zip(expected, ask(questions), strict=True):
        assert {(decoded(topic), int(partition)): int(offset) for topic, partition, offset in real} == lines
