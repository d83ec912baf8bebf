"""What Spark raises, told plainly: the class, exit code and message of what was raised in a task."""

import os
import pickle
import warnings

import pytest

pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")

from py4j.protocol import Py4JNetworkError
from pyspark.errors.exceptions.base import PythonException, SparkRuntimeException

from kafkalog_cli.spark import sessions
from kafkalog_cli.spark.jobs import is_of_a_worker, plain_error, plain_errors, without_traceback
from tests.support.product import DamagedLog, ExitCode, KafkalogError, Locked, NoSpace, Unreadable

TRACE = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 9, in f
    raise something
{}
"""
MORE = "\n\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:660)\n\tat java.base/x.Y.run"


def told(text, kind=PythonException):
    return plain_error(kind(text))


@pytest.mark.parametrize("end", ["", "\n", MORE, "\n" + MORE, "\n\nDriver stacktrace:" + MORE])
def test_an_error_of_kafkalog_raised_in_a_task_is_raised_again(end):
    damage = DamagedLog(path="/a/b\nkafkalog_cli.errors.Locked: no", position=3, message="bad: (x)")
    found = told(TRACE.format(f"kafkalog_cli.errors.DamagedLog: {damage}{end}"))
    assert (type(found), str(found), found.exit_code) == (DamagedLog, str(damage), ExitCode.CORRUPTION)


def test_the_last_error_of_a_chained_traceback_is_raised():
    first = TRACE.format("kafkalog_cli.errors.DamagedLog: /x: at byte 3: bad")
    text = first + "\nThe above exception was the direct cause of the following exception:\n\n"
    text += TRACE.format("kafkalog_cli.errors.Locked: /y: locked: by me")
    assert (type(told(text)), str(told(text))) == (Locked, "/y: locked: by me")


@pytest.mark.parametrize(
    "end", ["", "\n", "\n SQLSTATE: 38000" + MORE, "\n SQLSTATE: 38000\n\nDriver stacktrace:" + MORE]
)
@pytest.mark.parametrize(
    "before",
    [
        "An exception was thrown from the Python worker:\n",
        "[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: ",
        "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: [PYTHON_EXCEPTION] An exception was"
        " thrown from the Python worker: ",
    ],
)
def test_an_error_of_a_worker_without_a_traceback_is_recognised(before, end):
    """As a worker sends an error of ours."""
    damage = DamagedLog(path="/a/b\nkafkalog_cli.errors.Locked: no", position=3, message="bad: (x)")
    text = f"{before}kafkalog_cli.errors.DamagedLog: {damage}{end}"
    assert (type(told(text)), str(told(text))) == (DamagedLog, str(damage))
    assert is_of_a_worker(text)
    assert not is_of_a_worker("org.apache.spark.SparkException: Job aborted.")


def test_only_a_worker_leaves_the_traceback_out(monkeypatch):
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    for runtime, hidden in (("PYTHON_WORKER", "1"), ("", None)):
        monkeypatch.setenv("SPARK_PYTHON_RUNTIME", runtime)
        with pytest.raises(ValueError, match="mine"), without_traceback():
            raise ValueError("mine")
        assert "SPARK_HIDE_TRACEBACK" not in os.environ
        with pytest.raises(Locked), without_traceback():
            raise Locked(path="/y", reason="by me")
        assert os.environ.get("SPARK_HIDE_TRACEBACK") == hidden
        monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)


def test_an_error_of_the_system_in_a_task_becomes_no_space_or_its_message():
    full = told(TRACE.format("OSError: [Errno 28] No space left on device: '/out/x.parquet'"))
    assert (type(full), full.exit_code) == (NoSpace, ExitCode.NO_SPACE)
    assert str(full).startswith("/out/x.parquet: no space left")
    nameless = told(TRACE.format("OSError: [Errno 28] No space left on device"))  # of a write: it names no file
    assert str(nameless).startswith("the output: no space left")
    assert str(full).startswith("/out/x.parquet: no space left")
    refused = told(TRACE.format("PermissionError: [Errno 13] Permission denied: '/out'"))
    assert (type(refused), str(refused)) == (KafkalogError, "Permission denied: '/out'")


def test_an_unexpected_error_in_a_task_is_one_line():
    assert str(told(TRACE.format("ZeroDivisionError: division by zero"))) == (
        "a task of Spark failed: ZeroDivisionError: division by zero"
    )
    assert str(told(TRACE.format("MemoryError"))) == "a task of Spark failed: MemoryError: "
    assert str(told("[NO_COLUMN] there is none; line 1\n'Project x\n+- y", SparkRuntimeException)) == (
        "Spark: [NO_COLUMN] there is none; line 1"
    )
    java = "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: Job aborted.\n\tat org.apache.x"
    assert str(told(java, SparkRuntimeException)) == "Spark: Job aborted."


def test_errors_that_are_not_of_spark_are_left_alone():
    assert plain_error(ValueError("x")) is None
    with pytest.raises(ValueError, match="x"), plain_errors():
        raise ValueError("x")
    with pytest.raises(Locked), plain_errors():
        raise Locked(path="/y", reason="by me")
    with pytest.raises(Locked, match="/y: locked: by me"), plain_errors():
        raise PythonException(TRACE.format("kafkalog_cli.errors.Locked: /y: locked: by me"))


def test_java_that_does_not_answer():
    """But a pipe that is closed is that of the output."""
    from py4j.protocol import Py4JNetworkError

    for error in (
        ConnectionRefusedError(111, "x"),
        ConnectionResetError(),
        Py4JNetworkError("Answer from Java side is empty"),
    ):
        with pytest.raises(KafkalogError, match="its Java has ended in the middle"), plain_errors():
            raise error
    with pytest.raises(BrokenPipeError), plain_errors():
        raise BrokenPipeError


def test_errors_go_from_process_to_process():
    error = Unreadable(path="/x", reason="of the device")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.details) == (Unreadable, str(error), error.details)


def test_an_interrupt_of_a_spark_job_stays_an_interrupt():
    """Ctrl-C ends Java as well: what cleaning up then raises is not what is told."""

    def interrupted():
        try:
            raise KeyboardInterrupt
        finally:
            raise ConnectionRefusedError

    with pytest.raises(KeyboardInterrupt), plain_errors():
        interrupted()
    with pytest.raises(KafkalogError, match="its Java has ended in the middle"), plain_errors():
        raise ConnectionRefusedError


def test_stopping_what_has_ended_says_nothing(recwarn):
    class Ended:
        def __init__(self, error):
            self.error = error

        def stop(self):
            warnings.warn("Unable to cleanly shutdown", RuntimeWarning, stacklevel=1)
            raise self.error

    for error in (ConnectionRefusedError(), Py4JNetworkError("gone")):
        sessions._stop(Ended(error))
    assert not recwarn.list
    with pytest.raises(ValueError, match="other"):
        sessions._stop(Ended(ValueError("other")))
