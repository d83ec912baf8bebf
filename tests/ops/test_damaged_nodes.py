"""verify and doctor on log directories of nodes whose files at the root, metadata log or partitions are not as they should be."""

import re
import subprocess

import pytest

from tests.support.commands import json_of, kafkalog
from tests.support.damaged_nodes import DAMAGES, FLAVOURS, node

COMMAND = re.compile(r"`([^`]+)`")


def findings(*argv):
    return [line for line in json_of("verify", *argv)[1] if line["type"] == "finding"]


def actions(data):
    return [line["action"] for line in json_of("doctor", data)[1] if line["type"] == "start-step"]


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
    assert damage.found[place] in [one["kind"] for one in found], found
    assert damage.actions[place] in actions(data)
    if damage.mends:
        for command in dict.fromkeys(word for one in found for word in COMMAND.findall(one["next_step"])):
            if command.startswith("kafkalog "):
                assert kafkalog(*command.split()[1:]).code in (0, 3), command
            else:
                subprocess.run(["sh", "-c", command], check=True)
        assert {one["severity"] for one in findings(data)} <= {"info"}  # a file that was moved aside
        assert set(actions(data)) == {"trusts"}
