"""Programs that read through other clients, in the cache of the interop tests: kafkajs, franz-go, sarama, kcat, MirrorMaker 2, Kafka 0.7 and 0.8."""

import json
import shutil
import subprocess
from pathlib import Path

from tests.interop.real_kafka import CACHE, HERE, JAVA, NoRealKafka, fetch

PROGRAMS = HERE / "clients"
MIRROR_MAKER = "4.3.1"
"""Of 4.4.0, packages that it needs are not on every mirror of Maven."""
KAFKAJS, FRANZ_GO, SARAMA = "2.2.4", "v1.22.3", "v1.61.1"
PROZESS, BIGNUM = "0.7.0", "0.13.1"
"""A client of Kafka 0.7, and the first version of its library of large numbers that compiles today."""
KAFKA_08 = "0.8.2.2"
SECONDS = 90


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
    found = {}
    for line in out.splitlines():
        partition, offset, key, value = json.loads(line)
        fields = (None if field is None else bytes.fromhex(field) for field in (key, value))
        found.setdefault(partition, []).append((offset, *fields))
    return {partition: sorted(found[partition], key=lambda one: one[0]) for partition in found}


def by_kafkajs(address, topic, isolation, count, group):
    need("node", "npm")
    install = ("npm", "install", "--no-audit", "--no-fund", f"kafkajs@{KAFKAJS}")
    folder = fetched(CACHE / f"kafkajs-{KAFKAJS}", [install])
    shutil.copy(PROGRAMS / "kafkajs.js", folder)
    return records_of("node", "kafkajs.js", address, topic, isolation, count, group, cwd=folder)


def go_program(name, folder, module):
    """A program of tests/interop/clients with one module of Go, built for what its source says now."""
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
    words = ("-e", "-q", "-o", "beginning", "-X", f"isolation.level={isolation}", "-f", "%p %o %K %S %k%s\n")
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
