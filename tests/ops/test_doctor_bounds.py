"""What doctor finds exactly at a limit: of partitions with one repair, of segments that are listed."""

from types import SimpleNamespace

import pytest

from kafkalog_cli.ops.doctor.commands import MessagePlaces, NextCommand, _with_places
from kafkalog_cli.ops.doctor.examination import _joined, _of_plan


def test_a_command_of_one_word_has_no_place():
    assert _with_places(["df"], MessagePlaces("/disk")) == ("df",)


def repair(number):
    return NextCommand(("kafkalog", "recover", f"/disk/t-{number}"), "why", 0)


@pytest.mark.parametrize("count", [3, 4])
def test_more_than_three_partitions_get_one_repair(count):
    joined = {one.argv for one in _joined([repair(number) for number in range(count)], "/disk/")}
    assert len(joined) == (1 if count > 3 else count)


def test_a_command_without_a_path_is_no_repair_of_a_partition():
    alone = NextCommand(("kafkalog", "recover"), "why", 0)
    assert [*_joined([alone], "/disk")] == [alone]


@pytest.mark.parametrize(("count", "words"), [(1, "0)"), (3, "0, 1, 2)"), (4, "0, 1, 2, …)")])
def test_the_first_three_segments_are_named(count, words):
    plan = SimpleNamespace(is_refused=False, remarks=(), recovered=range(count), path="/disk/t-0")
    (step,) = _of_plan(plan)
    assert step.message.endswith(f"(base offset {words}")
