"""Of which partition an error of the disk speaks."""

import errno

import pytest

from kafkalog_cli.errors import KafkalogError, next_step


@pytest.mark.parametrize(
    "name", ["", "/.kafkalog/20261118T110640.000Z-recover-0001", "/.kafkalog/x-0001/manifest.json"]
)
def test_the_next_step_names_the_partition_of_a_run(name):
    error = OSError(errno.EIO, "Input/output error", f"/log-1/t-0{name}")
    assert "`kafkalog recover /log-1/t-0 --salvage salvaged`" in next_step(error)


def test_an_error_that_was_raised_from_itself_has_no_next_step():
    error = KafkalogError(reason="as it was")
    error.__cause__ = error
    assert next_step(error) == ""
