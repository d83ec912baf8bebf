"""What a terminal shows while Spark starts."""

import contextlib
import io
import time

import pytest

pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")

from kafkalog_cli.cli.engine import engine_of
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.options import Spark
from kafkalog_cli.ops.map_each import Item
from tests.support.commands import Terminal


class Started(Exception):
    pass


class Session:
    @property
    def sparkContext(self):  # noqa: N802 - PySpark's name
        raise Started


@pytest.mark.parametrize(("as_json", "is_shown"), [(False, True), (True, False)])
def test_a_terminal_shows_that_spark_starts(as_json, is_shown, monkeypatch):
    """As `sql` does; JSON output has no line of text."""

    @contextlib.contextmanager
    def started(master, *, settings, is_small):
        assert (master, settings, is_small) == ("local[3]", {"a": "b"}, True)
        for _ in range(3000 if is_shown else 12):
            if b"starting Spark: 0:0" in terminal.getvalue():
                break
            time.sleep(0.1)
        yield Session()

    terminal = Terminal()
    monkeypatch.setattr("kafkalog_cli.spark.sessions.command_session", started)
    environment = Environment(io.BytesIO(), terminal, terminal=None)
    with engine_of(environment, Spark("spark", "local[3]", ["a=b"]), as_json=as_json) as map_each:
        assert b"Spark" not in terminal.getvalue()
        with pytest.raises(Started):
            list(map_each([Item(1)], lambda value, _: value))
    assert (b"starting Spark: 0:0" in terminal.getvalue()) == is_shown
