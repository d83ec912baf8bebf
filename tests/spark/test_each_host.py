"""`--each-host`: workers of a cluster with different disks under one path, as brokers have them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kafka.three_brokers import unpack
from tests.spark.clusters import cluster, spark_environment
from tests.support.commands import kafkalog
from tests.support.product import KafkalogError
from tests.support.product_spark import java_environment

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"
PARTITIONS, MORE_PARTITIONS = 200, 1200
LOOPBACK = ("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1")
SETTINGS = (*LOOPBACK, "--conf", "spark.executor.memory=512m")
SECONDS = 900


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("verify", "/d", "--each-host"), "--each-host needs --engine spark"),
        (("stats", "/d", "--each-host"), "--each-host needs --engine spark"),
        (("verify", "/d", "--hosts", "3"), "--hosts needs --each-host"),
        (("verify", "d", "--each-host", "--engine", "spark"), "d: --each-host needs absolute paths"),
        (("verify", "/d", "--each-host", "--engine", "spark", "--metadata", "m"), "m: --each-host needs absolute"),
        (("verify", "/d", "--each-host", "--engine", "spark", "--report", "junit"), "--report cannot be combined"),
        (("verify", "/d", "--each-host", "--engine", "spark", "--against", "/e"), "--against needs --engine local"),
        (("stats", "/d", "--each-host", "--engine", "spark", "--key-format", "hex"), "--key-format and --schemas"),
    ],
)
def test_each_host_refuses_options_that_it_cannot_follow(words, reason):
    code, out, errors = kafkalog(*words)
    assert (code, out) == (2, "")
    assert reason in errors


class Disks:
    """The disks of three brokers, which see them under one path, and a fourth host without the path."""

    def __init__(self, folder, url):
        self.path, self.own, self.url = folder / "kafka", [folder / f"disk-{one}" for one in (1, 2, 3)], url

    def command(self, verb, *words, hosts=3):
        spark = ("--engine", "spark", "--master", self.url, *SETTINGS)
        return [sys.executable, "-m", "kafkalog_cli", verb, str(self.path), "--each-host", *spark,
                "--hosts", str(hosts), *words]  # fmt: skip

    def start(self, verb, *words, hosts=3):
        return subprocess.Popen(
            self.command(verb, *words, hosts=hosts), env=spark_environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def alone(self, verb, *words):
        """What the command prints of each disk alone, as objects without the path of the disk, by node."""
        found = {}
        for node, disk in enumerate(self.own, 1):
            _, out, _ = kafkalog(verb, disk, "--format", "json", *words)
            found[node] = objects(out.replace(str(disk), str(self.path)))
        return found


def make_disk(disk, node, of_broker):
    """Copies of real partitions, one with damage on the second node, and many that are only on the third.

    So the third has not done all when the first results are there. Beside them are those of a broker whose replicas differ from those of the others.
    """
    disk.mkdir(parents=True)
    for partition in of_broker.glob("[a-z]*-[0-9]"):
        shutil.copytree(partition, disk / partition.name)
    (disk / "meta.properties").write_text(f"version=1\nnode.id={node}\ncluster.id=bGFiLWNsdXN0ZXItMDAwMA\n")
    for number in range(PARTITIONS):
        shutil.copytree(EXAMPLE / f"mixed-{number % 2}", disk / f"mixed-{number}")
    if node == 2:
        log = next((disk / "mixed-7").glob("*.log"))
        data = bytearray(log.read_bytes())
        data[200] ^= 1
        log.write_bytes(data)
    if node == 3:
        shutil.copytree(EXAMPLE / "levels-0", disk / "levels-0")
        for number in range(PARTITIONS, MORE_PARTITIONS):
            shutil.copytree(disk / f"mixed-{number % 2}", disk / f"mixed-{number}", copy_function=os.link)


@pytest.fixture(scope="module")
def disks(tmp_path_factory):
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed: no cluster is proven")
    try:
        java_environment(os.environ)
    except KafkalogError as error:
        pytest.skip(f"NO CLUSTER IS STARTED: {error}")
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("NO CLUSTER IS STARTED: this user may not have mounts of its own (unshare -m)")
    folder = tmp_path_factory.mktemp("hosts")
    (folder / "kafka").mkdir()
    found = Disks(folder, "")
    unpack(folder)
    for node, disk in enumerate(found.own, 1):
        make_disk(disk, node, folder / f"broker-{node}")

    (folder / "empty").mkdir()

    def before(number):
        own = f"{found.own[number]} {found.path}" if number < 3 else f"{folder}/empty {folder}"
        return ("unshare", "-m", "sh", "-c", f'mount --bind {own} && exec "$@"', "sh")

    with cluster(tmp_path_factory.mktemp("spark") / "cluster", 4, before) as url:
        found.url = url
        yield found


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


def of_hosts(out, kind):
    """The objects of a type by node, without the name of the host."""
    found = {1: [], 2: [], 3: []}
    for one in objects(out):
        if one["type"] in kind and "host" in one:  # not of a comparison
            found[int(one.pop("host").rpartition("-")[2])].append(one)
    return found


def in_order(found):
    return {node: sorted(map(json.dumps, rows)) for node, rows in found.items()}


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.full
def test_each_host_reports_what_each_disk_has_and_does_again_what_a_killed_process_left(disks):
    kinds = ("verification", "finding")
    alone = {node: [one for one in found if one["type"] in kinds] for node, found in disks.alone("verify").items()}
    assert sum(map(len, alone.values())) > 3 * PARTITIONS

    again = disks.start("verify", "--format", "json", "--jobs", "1")
    first = first_line(again)
    os.kill(executor_below(disks.url.workers[2].pid), signal.SIGKILL)
    out, errors = again.communicate(timeout=SECONDS)
    out = first + out
    assert again.returncode == 4, errors[-3000:]
    assert in_order(of_hosts(out, kinds)) == in_order(alone)
    verified = [one for one in objects(out) if one["type"] == "verification" and one["topic"]]
    partitions = [(one["topic"], one["partition"]) for one in verified]
    assert partitions == sorted(partitions)
    counts = {one["host"].rpartition("-")[2]: one for one in objects(out) if one["type"] == "verified-host"}
    bad = {node: sum(one.get("corruptions", 0) for one in found) for node, found in alone.items()}
    assert [counts[str(node)]["corruptions"] for node in bad] == [*bad.values()]
    assert bad[2] >= 2
    check_comparisons(objects(out), disks)

    rows = {node: [one for one in found if one["type"] == "stats"] for node, found in disks.alone("stats").items()}
    missing = disks.start("stats", "--format", "json", hosts=4)
    out, errors = missing.communicate(timeout=SECONDS)
    assert missing.returncode == 5, errors[-3000:]
    assert in_order(of_hosts(out, ("stats",))) == in_order(rows)
    assert "3 hosts of 4 answered with the paths" in errors
    assert f"{disks.path}: no such file or directory" in errors

    interrupted = disks.start("verify", "--format", "json", "--jobs", "1")
    first = first_line(interrupted)
    interrupted.send_signal(signal.SIGINT)
    begun = time.monotonic()
    _, errors = interrupted.communicate(timeout=SECONDS)
    assert (interrupted.returncode, time.monotonic() - begun < 30) == (130, True), errors[-3000:]
    assert "/broker-" in first

    killed = disks.start("verify", "--format", "json", "--jobs", "1")
    first = first_line(killed)
    os.killpg(disks.url.workers[2].pid, signal.SIGKILL)
    out, errors = killed.communicate(timeout=SECONDS)
    assert killed.returncode == 5, errors[-3000:]
    found = of_hosts(first + out, kinds)
    assert in_order({node: found[node] for node in (1, 2)}) == in_order({node: alone[node] for node in (1, 2)})
    reported = {one["path"] for one in found[3] if one["type"] == "verification"}
    (lost,) = [one["message"] for one in objects(errors) if one["type"] == "error"]
    assert "/broker-3: no executor of Spark is left there; not done: " in lost
    named = set(lost.partition("not done: ")[2].split(", "))
    assert reported | named == {one["path"] for one in alone[3] if one["type"] == "verification"}
    assert not reported & named
    assert len(named) > 10


def first_line(process):
    """The first line of its output, and no byte more: `communicate` returns the rest."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(process.stdout.fileno(), 1)
        assert byte, f"it ended after {line!r}: {process.communicate(timeout=SECONDS)[1][-3000:]}"
        line += byte
    return line.decode()


def check_comparisons(found, disks):
    """The partitions whose replicas differ, what they lack, and what a follower of another would cut off."""
    comparisons = {one["path"]: one for one in found if one.get("target") == "comparison"}
    assert comparisons.keys() == {path.name for path in disks.own[0].glob("*-*")}
    assert {path for path, one in comparisons.items() if one["corruptions"]} == {
        "mixed-7", "users-1", *(f"orders-{number}" for number in range(4)),
    }  # fmt: skip
    assert [name.rpartition("-")[2] for name in comparisons["orders-0"]["hosts"]] == ["1", "2", "3"]
    assert comparisons["payments-0"]["infos"] == 3  # two are behind, and one is more complete
    own = [one for one in found if one["type"] == "finding" and "host" not in one]
    cut = next(one for one in own if one["kind"] == "diverged" and one["topic"] == "orders")
    assert cut["first_offset"] == 100
    assert f":{disks.path}/orders-0 cuts its log off at offset 100, and loses 30 offsets" in cut["broker_effect"]
    (missing,) = [one for one in own if one["kind"] == "records-missing" and one["topic"] == "users"]
    assert missing["path"].endswith(f"/broker-2:{disks.path}/users-1")
    assert f":{disks.path}/users-1/ {disks.path}/users-1` restore it from the other" in missing["next_step"]


def executor_below(pid, word="CoarseGrainedExecutorBackend"):
    """The process with a word in its command line below a process; None if there is none."""
    parents = {}
    for entry in Path("/proc").iterdir():
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (ValueError, OSError, IndexError):
            continue
    for one in parents:
        above, line = one, set()
        while above in parents and above not in line:
            line.add(above)
            above = parents[above]
        try:
            if pid in line and one != pid and word in (Path("/proc") / str(one) / "cmdline").read_text():
                return one
        except OSError:
            continue
    return None
