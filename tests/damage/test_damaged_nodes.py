"""verify and doctor on log directories of nodes whose files at the root, metadata log or partitions are not as they should be."""

import re
import shutil
import subprocess

import pytest

from tests.support.commands import json_of, kafkalog
from tests.support.damaged_nodes import DAMAGES, FLAVOURS, node

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


@pytest.mark.parametrize("flavour", FLAVOURS)
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
    node("static", tmp_path).rename(tmp_path / "kafka-log0")
    (tmp_path / "lost+found").mkdir()
    for verb in ("verify", "ls", "doctor", "recover"):
        code, _, err = kafkalog(verb, tmp_path)
        assert (code != 0, f"There is a log directory in it: {tmp_path}/kafka-log0" in err) == (True, True), err


def test_a_second_directory_of_a_node_is_held_against_the_metadata_log_in_the_first(tmp_path):
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
