"""Real nodes of 4.2.0 on the damages of support/damaged_nodes: they start or not as its table says, and after the printed
commands each serves all partitions."""

import pytest

from tests.damage.test_damaged_nodes import do_commands, findings
from tests.kafka.nodes import SERVED, Nodes, copy
from tests.support.damaged_nodes import DAMAGES, FLAVOURS, node

pytestmark = pytest.mark.xdist_group("nodes")


@pytest.fixture(scope="module")
def nodes(real_kafka, tmp_path_factory):
    with Nodes(tmp_path_factory.mktemp("nodes"), real_kafka.broker_class_path) as made:
        yield made


@pytest.mark.exhaustive
@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("name", DAMAGES)
def test_a_node_does_what_the_table_says_and_serves_all_after_the_printed_commands(nodes, tmp_path, name, flavour):
    damage, place = DAMAGES[name], FLAVOURS.index(flavour)
    (tmp_path / "alone").mkdir()
    (tmp_path / "advised").mkdir()
    data = node(flavour, tmp_path / "advised")
    damage.make(data)
    copy(data, tmp_path / "alone" / "data")
    alone = nodes.start(tmp_path / "alone" / "data", is_dynamic=flavour == "dynamic")
    assert (alone.end == SERVED) is damage.starts[place]
    if damage.mends:
        do_commands(findings(data))
        advised = nodes.start(data, is_dynamic=flavour == "dynamic")
        assert (advised.end, advised.aside) == (SERVED, frozenset())
        assert all(isinstance(offset, int) for _, *offsets in advised.served.values() for offset in offsets)
