"""A choice of topics and partitions as text, by which runs know that they were the same command."""

import os
import re
import subprocess
import sys

import pytest

from kafkalog_cli.ops.selection import Selection, expand
from tests.support.product import ExitCode, PathNotFound, RealFilesystem

MAKE = (
    "from kafkalog_cli.ops.selection import Selection; print(Selection(frozenset('abcdefgh'), frozenset((9, 1))).text)"
)


def test_the_text_is_the_same_in_every_process():
    """Where the hashes of strings differ, and with them the order in a set."""
    told = {
        subprocess.run(
            [sys.executable, "-c", MAKE],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
        ).stdout
        for seed in range(1, 5)
    }
    assert told == {b'[["a", "b", "c", "d", "e", "f", "g", "h"], [1, 9], null]\n'}


def test_the_text_tells_choices_apart():
    choices = [
        Selection(), Selection(frozenset("a")), Selection(frozenset("b")), Selection(frozenset("ab")),
        Selection(partitions=frozenset((1,))), Selection(topic_pattern=re.compile("a")),
    ]  # fmt: skip
    assert len({one.text for one in choices}) == len(choices)


@pytest.mark.parametrize(
    ("path", "question"),
    [
        ("logs/order-0", " Did you mean logs/orders-0?"),
        ("logs/pay", " Did you mean logs/payments-0?"),
        ("log", " Did you mean logs?"),
        ("logs/zzz", ""),
        ("nowhere/orders-0", ""),
    ],
)
def test_a_missing_path_names_paths_beside_it_that_resemble_it(tmp_path, monkeypatch, path, question):
    for name in ("orders-0", "payments-0"):
        (tmp_path / "logs" / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PathNotFound) as raised:
        expand(RealFilesystem(), [path])
    assert raised.value.exit_code is ExitCode.NOT_FOUND
    assert str(raised.value) == f"{path}: no such file or directory{question and '.'}{question}"
