"""Errors of tasks: one line of ours from commands, and in a job of Spark's user a line of ours without tracebacks."""

import pytest

from tests.damage.makers import batch, record
from tests.spark.querying import kafkalog, log
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import DamagedLog, ExitCode, NothingSelected, PathNotFound, UsageError

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """A log whose first batch has a byte changed."""
    bad = bytearray(batch_v2([R(0, BASE_TIME_MS, b"a", b"one"), R(1, BASE_TIME_MS, b"b", b"two")]))
    bad[-1] ^= 1
    return log(
        tmp_path_factory.mktemp("damaged"), "orders", bytes(bad) + batch_v2([R(2, BASE_TIME_MS, b"c", b"three")])
    )


@pytest.fixture
def said(damaged):
    """The one line about the damage."""
    return f"{damaged}/orders-0/{0:020d}.log: at byte 0: its CRC does not match: the records of offsets 0 to 1 are left out"


@pytest.fixture(autouse=True, scope="module")
def in_spark(spark):
    return spark


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "query",
    ["select * from orders", "select max(key) from orders", "select count(*) from orders a join orders b using (key)"],
)
def test_sql_at_damage_ends_with_4_and_one_line(damaged, said, query, tmp_path):
    for options in ([], ["--output", str(tmp_path / "rows.parquet")]):
        assert kafkalog("sql", damaged, query, *options) == (ExitCode.CORRUPTION, "", f"kafkalog: {said}\n")


def test_export_at_damage_ends_with_4_and_a_next_step(damaged, said, tmp_path):
    code, out, err = kafkalog("export", damaged, "--output", tmp_path / "lake")
    assert (code, out) == (ExitCode.CORRUPTION, "")
    told, advice = err.splitlines()
    assert told == f"kafkalog: {said}"
    assert advice.strip() == "next: nothing was exported; --mode dropmalformed exports what can be read"


@pytest.mark.full
def test_sql_at_a_magic_that_clients_refuse_ends_with_one_line(tmp_path):
    """As `read` and Java's consumer: the batch of magic 7 is an error, and not its records."""
    data = [batch(at, [record(0, b"k", b"value %d" % at)], magic=7 if at == 1 else 2) for at in range(3)]
    path = log(tmp_path, "orders", b"".join(data))
    at = f"{path}/orders-0/{0:020d}.log: at byte {len(data[0])}"
    said = f"kafkalog: {at}: clients refuse its magic 7: the records of offsets 1 to 1 are left out"
    for query in ("select value from orders", "select count(*) from orders", "select max(offset) from orders"):
        assert kafkalog("sql", path, query) == (ExitCode.CORRUPTION, "", f"{said}\n")
    code, out, err = kafkalog("export", path, "--output", tmp_path / "lake")
    assert (code, out, err.splitlines()[0]) == (ExitCode.CORRUPTION, "", said)
    assert not list((tmp_path / "lake").rglob("*.parquet"))


def test_import_of_a_file_that_is_no_parquet_ends_with_one_line(damaged, tmp_path):
    (tmp_path / "in.parquet").write_bytes(b"PAR1 is not enough")
    (tmp_path / "logs").mkdir()
    code, out, err = kafkalog("import", tmp_path / "in.parquet", "--log-dir", tmp_path / "logs", "--topic", "orders")
    assert (code != 0, out, err.count("\n")) == (True, "", 1), err
    assert "in.parquet" in err


def raised_by(use):
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as raised:
        use()
    return str(raised.value)


USES = {
    "collect": lambda frame, _: frame.collect(),
    "count": lambda frame, _: frame.select("value").distinct().count(),
    "toArrow": lambda frame, _: frame.toArrow(),
    "rdd": lambda frame, _: frame.rdd.count(),
    "write": lambda frame, folder: frame.write.parquet(str(folder / "copy")),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("use", USES)
def test_a_spark_job_at_damage_raises_the_error_of_kafkalog(spark, damaged, said, use, tmp_path):
    """Spark's own words are first, then ours: no traceback of a worker, no stack of Java."""
    frame = spark.read.format("kafkalog").load(str(damaged))
    if use == "rdd":
        from py4j.protocol import Py4JJavaError

        with pytest.raises((Py4JJavaError, Exception)) as raised:
            USES[use](frame, tmp_path)
        text = str(raised.value)
    else:
        text = raised_by(lambda: USES[use](frame, tmp_path))
        assert text.splitlines() == [
            "An exception was thrown from the Python worker:", f"kafkalog_cli.errors.DamagedLog: {said}",
        ]  # fmt: skip
    assert "Traceback" not in text
    from tests.support.product_spark import plain_errors

    with pytest.raises(DamagedLog) as plain, plain_errors():
        USES[use](frame, tmp_path / "again")
    assert (str(plain.value), plain.value.exit_code) == (said, ExitCode.CORRUPTION)


@pytest.mark.parametrize(
    ("options", "path", "kind", "words"),
    [
        ({"subscribe": "nosuch"}, None, NothingSelected, "nosuch not found under"),
        ({}, "/nonexistent/kafka", PathNotFound, "/nonexistent/kafka: no such file or directory"),
        ({"colour": "red"}, None, UsageError, "unknown option 'colour'; there are"),
        ({"columns": "offse"}, None, UsageError, "there is no column offse"),
    ],
)
def test_a_spark_job_with_a_wrong_option_raises_the_error_of_kafkalog(spark, damaged, options, path, kind, words):
    def use():
        spark.read.format("kafkalog").options(**options).load(path or str(damaged)).count()

    text = raised_by(use)
    assert f"kafkalog_cli.errors.{kind.__name__}: " in text.splitlines()[0]
    assert words in text.splitlines()[0]
    assert "Traceback" not in text
    from tests.support.product_spark import plain_errors

    with pytest.raises(kind, match=words) as raised, plain_errors():
        use()
    assert "SQLSTATE" not in str(raised.value)


def test_an_error_of_a_users_function_keeps_its_traceback(spark, damaged):
    """A function of the user's own in the same job; and a worker that ended with our error is followed by a new one."""
    frame = spark.read.format("kafkalog").load(str(damaged))
    raised_by(frame.collect)

    def fail(_):
        raise ValueError("mine")

    with pytest.raises(Exception, match="mine") as raised:
        spark.sparkContext.parallelize([1]).map(fail).collect()
    assert "Traceback" in str(raised.value)
