"""A whole node as the judge: `verify`, `doctor` and the commands that they print, held against a real node that starts.

`make fuzz-nodes` tries many.
"""

import os
from random import Random

import pytest

from tests.kafka.fuzz_nodes import ARCHIVE, fuzz
from tests.kafka.node_cases import judge
from tests.kafka.node_damage import FAMILIES, FAMILY, KINDS
from tests.kafka.nodes import BASES, ENDED, SERVED, Nodes, copy
from tests.support.archives import FIXTURES, unpack
from tests.support.commands import everything
from tests.support.effort import DIAL

pytestmark = pytest.mark.xdist_group("nodes")  # what its fixtures make is made once

CASES = DIAL.part(24)
INPUTS = {
    "badrec": ENDED, "int": SERVED, "long-stray": SERVED, "m90": SERVED, "meta-empty": ENDED, "mflip": SERVED,
    "nometa2": SERVED, "r-trailing": ENDED, "r-unknown": ENDED, "s90-nosnap": ENDED, "s90-ok": SERVED, "snap-random": ENDED,
    "v0mp": SERVED,
}  # fmt: skip
"""What a real node of 4.2.0 does that starts on it."""


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bases")
    unpack(ARCHIVE, folder)
    return folder


@pytest.fixture(scope="module")
def nodes(real_kafka, tmp_path_factory):
    with Nodes(tmp_path_factory.mktemp("nodes"), real_kafka.broker_class_path) as made:
        yield made


@pytest.mark.full
def test_a_node_does_what_is_printed_of_random_damage_and_printed_commands_leave_no_less(
    nodes, bases, tmp_path, evidence
):
    found = []
    if os.getuid():
        pytest.skip("cases of permissions need root")
    seeds, families = range(CASES), tuple(FAMILIES)
    fuzz(nodes, bases, tmp_path, seeds=seeds, families=families, show=lambda *one: found.append(one))
    evidence("R77", CASES)
    assert not found, "\n".join(f"{case}: {tried.found}" for case, tried, _ in found)


@pytest.mark.exhaustive
@pytest.mark.parametrize("base", BASES, ids=lambda base: base.name)
def test_a_sound_log_directory_has_no_finding_and_its_node_serves_all_topics(nodes, bases, tmp_path, base):
    for home in ("alone", "advised"):
        (tmp_path / home).mkdir()
        copy(bases / base.name, tmp_path / home / "data")
    tried = judge(tmp_path / "alone" / "data", tmp_path / "advised" / "data", nodes, base.is_dynamic)
    assert tried[:3] == ([], SERVED, False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", INPUTS)
def test_a_node_does_what_is_printed_of_the_inputs_of_a_trial(nodes, tmp_path, name):
    unpack(FIXTURES / "nodes" / "inputs.tar.xz", tmp_path)
    for home in ("alone", "advised"):
        (tmp_path / home).mkdir()
        copy(tmp_path / name, tmp_path / home / "data")
    tried = judge(tmp_path / "alone" / "data", tmp_path / "advised" / "data", nodes, is_dynamic=False)
    assert (tried.found, tried.end) == ([], INPUTS[name])


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_damage_changes_a_log_directory(bases, tmp_path, kind):
    if FAMILY[kind] == "perms" and os.getuid():
        pytest.skip("changing owners needs root")
    for seed in range(12):
        for base in BASES[:2]:
            home = tmp_path / f"{seed}-{base.name}"
            copy(bases / base.name, home)
            before = everything(home)
            KINDS[kind](Random(seed), home)
            if everything(home) != before:
                return
    pytest.fail("it never changes anything")
