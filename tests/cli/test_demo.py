"""`kafkalog demo`: the directory is what it says, and each command that it prints runs."""

import json
import shlex

import pytest

from tests.support.commands import kafkalog


@pytest.fixture(name="demo")
def made_demo(tmp_path):
    code, _, err = kafkalog("demo", tmp_path / "a shop")
    assert (code, err) == (0, "")
    return tmp_path / "a shop"


def test_verify_finds_in_the_demo_the_damage_it_announces_and_no_other(demo):
    code, out, _ = kafkalog("verify", demo, "--level", "deep", "--format", "json")
    lines = list(map(json.loads, out.splitlines()))
    found = {
        (line["kind"], line["path"].removeprefix(f"{demo}/").partition("/")[0])
        for line in lines
        if line["type"] == "finding"
    }
    assert code == 4
    assert ("torn-tail", "orders-1") in found
    assert ("crc-mismatch", "orders-2") in found
    whole = {"customers-0", "orders-0", "payments-0", "__consumer_offsets-9"}
    assert not {place for _, place in found} & whole


def test_every_command_of_the_demo_tour_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, out, _ = kafkalog("demo", "a shop")
    partitions = [path for path in (tmp_path / "a shop").iterdir() if path.is_dir()]
    assert out.startswith(f"a shop: {len(partitions)} partitions of a broker")
    assert not [path for path in partitions if (path / ".kafkalog").exists()]  # the tour begins without runs
    commands = [line.strip() for line in out.splitlines() if line.startswith("  kafkalog ")]
    codes = []
    for command in commands:
        words = shlex.split(command)[1:]
        if words[0] != "sql":
            codes.append((words[0], kafkalog(*words)[0]))
    assert codes == [
        ("ls", 3),
        ("verify", 4),
        ("recover", 3),
        ("recover", 0),
        ("recover", 4),
        ("read", 0),
        ("compact", 0),
        ("retain", 0),
    ]


@pytest.mark.parametrize("there", ["full", "file"])
def test_demo_refuses_a_path_that_exists(tmp_path, there):
    target = tmp_path / "there"
    if there == "file":
        target.write_text("mine")
    else:
        target.mkdir()
        (target / "mine").write_text("mine")
    code, out, err = kafkalog("demo", target)
    assert (code, out) == (2, "")
    assert "not empty" in err
    assert len(list(tmp_path.rglob("*"))) == (1 if there == "file" else 2)
