"""Programs that read through other clients, in the cache of the interop tests: kafkajs, franz-go, sarama, kcat, MirrorMaker 2, Kafka 0.7 and 0.8."""

import json
import shutil
import subprocess
from pathlib import Path

from tests.kafka.real_kafka import CACHE, HERE, JAVA, NoRealKafka, cache_locked, fetch

PROGRAMS = HERE / "clients"
MIRROR_MAKER = "4.3.1"
"""Of 4.4.0, packages that it needs are not on every mirror of Maven."""
KAFKAJS, FRANZ_GO, SARAMA = "2.2.4", "v1.22.3", "v1.61.1"
PROZESS, BIGNUM = "0.7.0", "0.13.1"
"""A client of Kafka 0.7, and the first version of its library of large numbers that compiles today."""
KAFKA_08 = "0.8.2.2"
SECONDS = 300
MANY_SECONDS = 1200
"""For a program that reads all topics of the corpus."""


def run(*command, cwd=None, seconds=300):
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, timeout=seconds, check=False)
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def need(*tools):
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise NoRealKafka(f"this client needs {', '.join(missing)}")


def fetched(folder, commands):
    """Run commands in a new folder of the cache, once. Raises NoRealKafka if one fails, such as without a network."""
    done = folder / "done"
    folder.mkdir(parents=True, exist_ok=True)
    with cache_locked():
        if not done.exists():
            for command in commands:
                code, _, errors = run(*command, cwd=folder)
                if code:
                    raise NoRealKafka(f"{' '.join(map(str, command))}: {errors[-300:]}")
            done.touch()
    return folder


def records_of(*command, cwd=None):
    """{partition: [(offset, key, value)]} of a program that prints JSON lists, keys and values in hex."""
    code, out, errors = run(*command, cwd=cwd, seconds=SECONDS)
    assert code == 0, errors
    return by_partition(map(json.loads, out.splitlines()))


def by_partition(records):
    found = []
    for partition, offset, *fields in records:
        found.append((partition, offset, *(None if field is None else bytes.fromhex(field) for field in fields)))
    return sorted_by_partition(found)


def sorted_by_partition(records):
    found = {}
    for partition, *record in sorted(records, key=lambda one: one[:2]):
        found.setdefault(partition, []).append(tuple(record))
    return found


def by_kafkajs(folder, jobs):
    """A dictionary as of `records_of` for each of (address, topic, isolation, number of records)."""
    need("node", "npm")
    install = ("npm", "install", "--no-audit", "--no-fund", f"kafkajs@{KAFKAJS}")
    home = fetched(CACHE / f"kafkajs-{KAFKAJS}", [install])
    shutil.copy(PROGRAMS / "kafkajs.js", home)
    lines = [json.dumps([*job, f"g-{number}"]) for number, job in enumerate(jobs)]
    (folder / "jobs").write_text("\n".join(lines))
    code, out, errors = run("node", "kafkajs.js", folder / "jobs", cwd=home, seconds=MANY_SECONDS)
    assert code == 0, errors
    found = [[] for _ in jobs]
    for line in out.splitlines():
        number, *record = json.loads(line)
        found[number].append(record)
    return [*map(by_partition, found)]


_FIELD, _LINE, _NULL = "<<field>>", "<<line>>", "<<null>>"


def by_console_consumer(folder, class_path, jobs):
    """The same through kafka-console-consumer, in one Java process."""
    shared = ["--from-beginning", "--timeout-ms", str(SECONDS * 1000)]
    for name, value in {
        "print.partition": "true", "print.offset": "true", "print.key": "true", "key.separator": _FIELD,
        "line.separator": _LINE, "null.literal": _NULL,
    }.items():  # fmt: skip
        shared += ["--formatter-property", f"{name}={value}"]
    lines = []
    for number, (address, topic, isolation, count) in enumerate(jobs):
        words = [str(folder / f"out-{number}"), "--bootstrap-server", address, "--topic", topic, "--isolation-level"]
        lines.append("\t".join([*words, isolation, "--max-messages", str(count), *shared]))
    (folder / "jobs").write_text("\n".join(lines))
    program = PROGRAMS / "ConsoleConsumers.java"
    code, _, errors = run(*JAVA, "-cp", class_path, program, folder / "jobs", seconds=MANY_SECONDS)
    assert code == 0, errors[-3000:]
    return [printed_records((folder / f"out-{number}").read_bytes()) for number in range(len(jobs))]


def printed_records(out):
    found = []
    for line in out.split(_LINE.encode())[:-1]:
        partition, offset, key, value = line.split(_FIELD.encode(), 3)
        fields = (None if field == _NULL.encode() else field for field in (key, value))
        found.append((int(partition.removeprefix(b"Partition:")), int(offset.removeprefix(b"Offset:")), *fields))
    return sorted_by_partition(found)


def go_program(name, folder, module):
    """A program of tests/kafka/clients with one module of Go, built for what its source says now."""
    need("go")
    source = PROGRAMS / f"{name}.go"
    fetched(folder, [("go", "mod", "init", "clients"), ("go", "get", module)])
    program = folder / name
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        shutil.copy(source, folder)
        for step in (("go", "mod", "tidy"), ("go", "build", "-o", program, ".")):
            code, _, errors = run(*step, cwd=folder)
            if code:
                raise NoRealKafka(f"{' '.join(map(str, step))}: {errors[-300:]}")
    return program


def franz_go():
    return go_program("franz", CACHE / f"franz-go-{FRANZ_GO}", f"github.com/twmb/franz-go/pkg/kgo@{FRANZ_GO}")


def by_franz_go(address, topic, isolation, count, group):
    return records_of(franz_go(), address, topic, isolation, count, group)


def by_sarama(address, topic, isolation, count, group):
    del group
    program = go_program("sarama", CACHE / f"sarama-{SARAMA}", f"github.com/IBM/sarama@{SARAMA}")
    return records_of(program, address, topic, isolation, count)


def by_kcat(address, topic, isolation, count, group):
    """kcat prints null as a size of -1, and %s is empty then; sizes come first, so any byte may be in a value."""
    del count, group
    need("kcat")
    words = (
        "-e",
        "-q",
        "-o",
        "beginning",
        "-X",
        f"isolation.level={isolation}",
        "-X",
        "fetch.wait.max.ms=20",
        "-f",
        "%p %o %K %S %k%s\n",
    )
    code, out, errors = run("kcat", "-C", "-b", address, "-t", topic, *words, seconds=SECONDS)
    assert code == 0, errors
    found, at = {}, 0
    while at < len(out):
        head = out[at:].split(b" ", 4)
        partition, offset, key_size, value_size = map(int, head[:4])
        at += sum(len(word) + 1 for word in head[:4])
        fields = []
        for size in (key_size, value_size):
            fields.append(None if size < 0 else out[at : at + size])
            at += max(size, 0)
        at += 1
        found.setdefault(partition, []).append((offset, *fields))
    return found


def mirror_maker_jars(version):
    """The class path of MirrorMaker 2. Raises NoRealKafka."""
    need("java", "mvn")
    jars = CACHE / f"connect-mirror-{version}"
    fetch(jars, HERE / "mirror-pom.xml", f"-Dkafka.version={version}")
    return ":".join(str(jar) for jar in sorted(Path(jars).glob("*.jar")))


def by_kafka_08(address, topic, partition, fetch_bytes, time_ms):
    """(offsets before a time, [(offset, key, value)], the last line if it is an error) of the SimpleConsumer of 0.8."""
    need("java", "mvn")
    jars = CACHE / f"kafka-{KAFKA_08}"
    fetch(jars, HERE / "kafka08-pom.xml", f"-Dkafka.version={KAFKA_08}")
    program = PROGRAMS / "SimpleConsumer08.java"
    host, port = address
    code, out, errors = run(
        *JAVA, "-cp", f"{jars}/*", program, host, port, topic, partition, fetch_bytes, time_ms, seconds=SECONDS
    )
    assert code == 0, errors
    offsets, *lines = out.decode().splitlines()
    error = lines.pop() if lines and lines[-1].startswith("error") else ""
    found = [json.loads(line) for line in lines]
    fields = [tuple(None if field is None else bytes.fromhex(field) for field in one[2:]) for one in found]
    return json.loads(offsets), [(one[1], *both) for one, both in zip(found, fields, strict=True)], error


def by_prozess(address, topic):
    """(the newest and the earliest offset, [(has a right CRC, codec, payload)]) of prozess."""
    need("node", "npm")
    steps = [
        ("npm", "init", "-y"),
        ("npm", "pkg", "set", f"overrides.bignum={BIGNUM}"),
        ("npm", "install", "--no-audit", "--no-fund", f"prozess@{PROZESS}"),
    ]
    folder = fetched(CACHE / f"prozess-{PROZESS}", steps)
    shutil.copy(PROGRAMS / "prozess.js", folder)
    code, out, errors = run("node", "prozess.js", *address, topic, cwd=folder, seconds=SECONDS)
    assert code == 0, errors
    bounds, *messages = map(json.loads, out.splitlines())
    return [*map(int, bounds)], [(valid, codec, bytes.fromhex(payload)) for valid, codec, payload in messages]
