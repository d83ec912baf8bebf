"""A whole node as the judge: `verify`, `doctor` and the commands that they print, held against a real node that starts.

`make fuzz-nodes` tries random damages.
"""

import os
from random import Random

import pytest

from tests.interop.fuzz_nodes import ARCHIVE
from tests.interop.node_cases import judge
from tests.interop.node_damage import FAMILY, KINDS
from tests.interop.nodes import BASES, SERVED, Nodes, copy
from tests.support.archives import unpack
from tests.support.commands import everything

pytestmark = pytest.mark.xdist_group("nodes")  # what its fixtures make is made once


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bases")
    unpack(ARCHIVE, folder)
    return folder


@pytest.fixture(scope="module")
def nodes(real_kafka, tmp_path_factory):
    with Nodes(tmp_path_factory.mktemp("nodes"), real_kafka.broker_class_path) as made:
        yield made


@pytest.mark.exhaustive
@pytest.mark.parametrize("base", BASES, ids=lambda base: base.name)
def test_a_sound_log_directory_has_no_finding_and_its_node_serves_all_topics(nodes, bases, tmp_path, base):
    for home in ("alone", "advised"):
        (tmp_path / home).mkdir()
        copy(bases / base.name, tmp_path / home / "data")
    tried = judge(tmp_path / "alone" / "data", tmp_path / "advised" / "data", nodes, base.is_dynamic)
    assert tried[:3] == ([], SERVED, False)


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
