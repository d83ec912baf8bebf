"""verify and doctor on log directories of nodes whose files at the root, metadata log or partitions are not as they should be."""

import re
import shutil
import subprocess

import pytest

from tests.support.commands import json_of, kafkalog
from tests.support.damaged_nodes import DAMAGES, FLAVOURS, OTHER_ID, node
from tests.support.effort import DIAL
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.metadata_logs import value
from tests.support.naive_reader import read_batches

COMMAND = re.compile(r"`([^`]+)`")


def findings(*argv):
    return [line for line in json_of("verify", *argv)[1] if line["type"] == "finding"]


def actions(data):
    return [line["action"] for line in json_of("doctor", data)[1] if line["type"] == "start-step"]


def do_commands(found):
    """Do literally what the findings print, in their order."""
    commands = [command for one in found for command in COMMAND.findall(one["next_step"] or "")]
    for command in dict.fromkeys(commands):
        if command.startswith("kafkalog "):
            kafkalog(*command.split()[1:])
        else:
            subprocess.run(["sh", "-c", command], check=True)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_sound_node_has_no_finding(flavour, tmp_path):
    data = node(flavour, tmp_path)
    assert findings(data) == []
    assert actions(data) == ["trusts"]


@pytest.mark.parametrize("flavour", FLAVOURS if DIAL.is_full else FLAVOURS[DIAL.rotation % 2 :][:1])
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_node_is_reported_and_its_commands_mend_it(name, flavour, tmp_path):
    damage, place = DAMAGES[name], FLAVOURS.index(flavour)
    data = node(flavour, tmp_path)
    damage.make(data)
    found = findings(data)
    kind = damage.found[place]
    if kind is None:  # another directory of the node may have the metadata log: only doctor says what follows if not
        assert found == []
    else:
        assert kind in [one["kind"] for one in found], found
    assert damage.actions[place] in actions(data)
    if damage.mends:
        do_commands(found)
        assert {one["severity"] for one in findings(data)} <= {"info"}  # a file that was moved aside
        assert set(actions(data)) == {"trusts"}


def test_the_root_of_a_volume_names_the_log_directory_in_it(tmp_path):
    volume = tmp_path / "volume"
    (volume / "lost+found").mkdir(parents=True)
    node("static", tmp_path).rename(volume / "kafka-log0")
    for verb in ("verify", "ls", "doctor", "recover"):
        code, _, err = kafkalog(verb, volume)
        assert (code != 0, f"There is a log directory in it: {volume}/kafka-log0" in err) == (True, True), err


def test_a_second_log_directory_is_compared_with_the_metadata_log_in_the_first(tmp_path):
    data = node("static", tmp_path)
    other = tmp_path / "second"
    other.mkdir()
    (data / "in-b-0").rename(other / "in-b-0")
    text = (data / "meta.properties").read_text()
    (other / "in-b-0" / "partition.metadata").unlink()
    shutil.copy(data / "log-start-offset-checkpoint", other)
    assert {one["kind"] for one in findings(data, other)} >= {"partition-metadata-missing", "meta-properties-missing"}
    (other / "meta.properties").write_text(text)
    assert "meta-properties-differ" in [one["kind"] for one in findings(data, other)]
    shutil.copytree(data / "__cluster_metadata-0", other / "__cluster_metadata-0")
    twins = [one for one in findings(data, other) if one["kind"] == "twin-directories"]
    assert [one["path"] for one in twins] == [f"{other}/__cluster_metadata-0"]


@pytest.mark.parametrize(("flavour", "key"), [*zip(FLAVOURS, ["voters", "bootstrap.servers"], strict=True)])
def test_a_lost_metadata_log_is_judged_by_the_quorum_of_server_properties(flavour, key, tmp_path):
    data, config = node(flavour, tmp_path), tmp_path / "server.properties"
    DAMAGES["metadata log missing"].make(data)
    config.write_text(f"log.dirs={data},{tmp_path}/other\ncontroller.quorum.{key}=1@localhost:9093\n")
    _, lines, _ = json_of("verify", data, "--broker-config", config)
    assert "metadata-log-lost" in [line["kind"] for line in lines if line["type"] == "finding"]
    steps = [line for line in json_of("doctor", data, "--broker-config", config)[1] if line["type"] == "start-step"]
    aside = [one["path"] for one in steps if one["action"] == "sets-aside"]
    partitions = sorted(str(path.parent) for path in data.glob("*/partition.metadata"))
    assert aside == (partitions if flavour == "static" else [])
    assert ("does-not-start" in [one["action"] for one in steps]) is (flavour == "dynamic")


OTHER_CLUSTER = "b3RoZXItY2x1c3Rlci0wMQ"


def second_directory(data, other, **ids):
    """A log directory with a partition and a meta.properties as that of `data`, but for these ids."""
    other.mkdir()
    shutil.copytree(data / "in-b-0", other / "in-b-0")
    text = (data / "meta.properties").read_text()
    for name, one in ids.items():
        text = re.sub(rf"^{name}\.id=.*", f"{name}.id={one}", text, flags=re.MULTILINE)
    (other / "meta.properties").write_text(text)


def differing(*argv):
    return [one for one in findings(*argv) if one["kind"] == "meta-properties-differ"]


def test_two_nodes_of_two_clusters_that_are_given_together_are_sound(tmp_path):
    """Both have node id 1: each has its own metadata log, so that nothing says that one node would have both."""
    one, other = tmp_path / "b1", tmp_path / "b2"
    for data in (one, other):
        node("static", tmp_path).rename(data)
    register_directories(other, [OTHER_ID])
    second_directory(other, tmp_path / "meta", cluster=OTHER_CLUSTER, directory=OTHER_ID)
    (tmp_path / "meta" / "meta.properties").replace(other / "meta.properties")
    assert [found["kind"] for found in findings(one, other)] == []
    (tmp_path / "server.properties").write_text(f"log.dirs={one}, {other}\n")
    (found,) = differing(one, other, "--broker-config", tmp_path / "server.properties")
    assert (found["path"], found["got"]) == (f"{other}/meta.properties", OTHER_CLUSTER)
    assert "do not change its cluster.id" in found["next_step"]


@pytest.mark.parametrize("is_first", [False, True])
def test_a_disk_of_another_cluster_is_to_be_left_out_and_no_command_changes_its_cluster_id(tmp_path, is_first):
    data, other = node("static", tmp_path), tmp_path / "other"
    second_directory(data, other, cluster=OTHER_CLUSTER, directory=OTHER_ID)
    argv = (other, data) if is_first else (data, other)
    (found,) = differing(*argv)
    assert found["path"] == f"{other}/meta.properties"
    assert all(command.startswith("kafkalog dump-index") for command in COMMAND.findall(found["next_step"]))
    steps = [line for line in json_of("doctor", *argv)[1] if line["type"] == "start-step"]
    assert [line["path"] for line in steps if line["ends_start"]] == [f"{other}/meta.properties"]


def test_a_changed_cluster_id_of_a_directory_that_the_node_registered_is_set_back_by_the_printed_commands(tmp_path):
    data, other = node("static", tmp_path), tmp_path / "other"
    second_directory(data, other, cluster=OTHER_CLUSTER, directory=OTHER_ID)
    shutil.rmtree(other / "in-b-0")
    own = re.search("directory.id=(.*)", (data / "meta.properties").read_text())[1]
    register_directories(data, [own, OTHER_ID])
    (found,) = differing(data, other)
    assert (found["path"], found["expected"]) == (f"{other}/meta.properties", "bGFiLWNsdXN0ZXItMDAwMA")
    do_commands([found])
    assert differing(data, other) == []


def register_directories(data, ids):
    """Add the record of a broker with these directories to the metadata log of node 1."""
    logs = sorted((data / "__cluster_metadata-0").glob("*.log"))
    last = [batch for log in logs for batch in read_batches(log.read_bytes())][-1]
    (broker,) = [line for line in json_of("cluster", data)[1] if line["type"] == "cluster-broker"]
    fields = {"brokerId": 1, "brokerEpoch": broker["epoch"], "logDirs": ids}
    record = R(last.last_offset + 1, BASE_TIME_MS, None, value("BrokerRegistrationChangeRecord", 2, **fields))
    with logs[-1].open("ab") as file:
        file.write(batch_v2([record], epoch=last.leader_epoch))
