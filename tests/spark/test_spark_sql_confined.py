"""A query of `sql` reads its log directories only and calls no code, unless it is allowed to."""

import zipfile
from pathlib import Path

import pytest

from tests.spark.querying import rows, sql

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SECRET = "this line is nobody's business"
PROPERTY = "'java.lang.System', 'getProperty', 'user.dir'"


@pytest.fixture(scope="module", autouse=True)
def in_spark(spark):
    return spark


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret.txt"
    path.write_text(SECRET + "\n")
    return path


def refused(shop, query, allow):
    """The query is refused, by name of what would allow it."""
    code, out, err = sql(shop, query)
    assert (code, out) == (2, ""), err
    assert err.count("\n") == 1
    assert SECRET not in err
    assert f"--allow {allow}" in err if allow else "--allow" not in err


@pytest.mark.parametrize("kind", ["text", "json", "csv", "binaryFile", "parquet", "orc", "avro", "xml"])
def test_no_format_reads_a_file(shop, secret, kind):
    refused(shop, f"select * from {kind}.`{secret}`", "files")


@pytest.mark.parametrize(
    "query",
    [
        "select (select max(value) from text.`{}`)",
        "with a as (select * from text.`{}`) select * from a",
        "select * from identifier('text.`{}`')",
        "select * from text.`{}` with (wholetext = true)",
        "select * from stream text.`{}`",
        "select * from orders where cast(key as string) in (select value from text.`{}`)",
        "table text.`{}`",
        "from text.`{}` |> select *",
        "select sum(1) over w from orders window w as (partition by (select max(value) from text.`{}`))",
        "select * from orders timestamp as of (select max(value) from text.`{}`)",
        "select * from orders, lateral (select * from text.`{}`)",
        "values ((select max(value) from text.`{}`))",
        "select * from `org.apache.spark.sql.execution.datasources.text.TextFileFormat`.`{}`",
        "select from_xml('<a/>', 'b int', map('rowvalidationxsdpath', '{}'))",
        "select schema_of_xml('<a/>', map('rowValidationXSDPath', '{}'))",
        "select from_avro(x'00', '\"int\"', map('avroSchemaUrl', '{}'))",
        "select from_protobuf(x'00', 'M', '{}')",
        "select xpath_string('<!DOCTYPE a SYSTEM \"file://{}\"><a/>', 'a')",
        "select * from python_worker_logs() -- {}",
    ],
)  # fmt: skip
def test_sql_refuses_every_function_that_reads_a_file(shop, secret, query):
    refused(shop, query.format(secret), "files")


def test_an_expression_makes_no_name_of_a_file(shop, secret):
    refused(shop, f"select * from identifier('te' || 'xt.`{secret}`')", None)
    refused(shop, f"select * from kafkalog.`{secret}`", None)
    code, out, err = sql(
        shop, f"select * from identifier('te' || 'xt.`{secret}`')", "--conf", "spark.sql.runSQLOnFiles=true"
    )
    assert (code, out) == (2, "")
    assert "no expression may make the name of a view" in err


def test_an_expression_that_makes_a_name_hides_no_function_that_reads(shop, secret):
    document = f'<!DOCTYPE a SYSTEM "file://{secret}"><a/>'
    for call in (
        f"xpath_string('{document}', 'a')",
        f"from_xml('<a/>', 'b int', map('rowValidationXSDPath', '{secret}'))",
    ):
        query = f"select * from identifier('explode')(array({call}))"
        refused(shop, query, None)


@pytest.mark.parametrize(
    "query",
    [
        "select reflect({})",
        "select java_method({})",
        "select TRY_REFLECT({})",
        "select `reflect`({})",
        "select system.builtin.reflect({})",
        "select * from values (reflect({}))",
        "select * from range(length(reflect({})))",
        "select sum(1) over w from orders window w as (partition by reflect({}))",
        "select * from orders lateral view explode(array(reflect({}))) e as x",
        "select transform(array(1), x -> reflect({}))",
        "select 1 order by reflect({})",
        "select 1 limit length(reflect({}))",
        "with a as (select reflect({}) b) select * from a",
        "select spark_catalog.default.mine({})",
    ],
)
def test_sql_refuses_every_function_that_calls_java(shop, query):
    refused(shop, query.format(PROPERTY), "java")


def test_an_expression_makes_no_name_of_a_function(shop):
    refused(shop, f"select identifier('ref' || 'lect')({PROPERTY})", None)


@pytest.mark.parametrize(
    "statement",
    [
        "create temporary view v using text options (path '{}')", "create temporary function f as 'x.Y'",
        "load data inpath '{}' into table orders", "add jar '{}'", "add file '{}'", "add archive '{}'", "list files",
        "set spark.sql.runSQLOnFiles=true", "reset", "cache table a as select 1", "refresh '{}'", "declare x int",
        "explain select reflect('java.lang.System', 'getenv', 'HOME')", "execute immediate 'select 1'", "call p()",
        "create function f(x int) returns int return x",
    ],
)  # fmt: skip
def test_sql_refuses_every_statement_that_is_no_query(shop, secret, statement):
    refused(shop, statement.format(secret), None)


def test_sql_allows_files_and_java_by_their_option(shop, secret):
    assert rows(shop, f"select * from text.`{secret}`", "--allow", "files") == [(SECRET,)]
    ((here,),) = rows(shop, f"select reflect({PROPERTY}) as here", "--allow", "java")
    assert Path(here).is_dir()
    code, _, err = sql(shop, f"select reflect({PROPERTY}) from text.`{secret}`", "--allow", "files")
    assert (code, "--allow java" in err) == (2, True)
    code, _, err = sql(shop, f"select reflect({PROPERTY}) from text.`{secret}`", "--allow", "java")
    assert (code, "--allow files" in err) == (2, True)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "query",
    [
        "with a as (select * from orders) select /*+ broadcast(a) */ partition, count(*) from a group by all having count(*) > 1",
        "select sum(value_size) over w from orders window w as (partition by partition order by `offset`)",
        "select * from orders pivot (count(*) for partition in (0, 1))",
        "from orders |> where partition = 0 |> aggregate count(*) group by topic",
        "with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select * from r",
        "select h.key from orders lateral view explode(headers) as h",
        "select trim(both ' ' from ' a '), extract(year from now()), hex(aes_encrypt('a', '0000111122223333')), from_xml('<a><b>1</b></a>', 'b int'), builtin.abs(1), 1 <=> 2, 'a' || 'b'",
        "select transform(array(1, 2), x -> x + 1), a[0] from values (array(1)), (array(2)) t(a)",
        "select * from stack(2, 1, 2) union all select id from range(3) order by 1 limit 3",
        "select count(*) from orders where exists (select 1 from kafkalog.segments s where s.topic = orders.topic)",
    ],
)
def test_queries_that_only_compute_are_answered(shop, query):
    assert rows(shop, query)


def test_sql_reports_an_unknown_function_as_spark_does(shop):
    code, _, err = sql(shop, "select nosuch(1)")
    assert (code, "UNRESOLVED_ROUTINE" in err) == (2, True), err


SUSPICIOUS = (
    b"java/lang/reflect/Method", b"java/lang/Runtime;", b"getRuntime", b"java/lang/ProcessBuilder", b"java/io/File", b"java/nio/file/",
    b"java/net/URL", b"java/net/Socket", b"org/apache/hadoop/fs/", b"org/apache/spark/SparkFiles", b"loadLibrary",
    b"javax/xml/parsers/",
)  # fmt: skip


def registered(spark):
    """Each function that Spark has, with the class of its expression."""
    state = spark._jsparkSession.sessionState()
    for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
        found = registry.listFunction().iterator()
        while found.hasNext():
            name = found.next()
            about = registry.lookupFunction(name)
            yield name.funcName(), about.get().getClassName() if about.isDefined() else ""


def test_every_function_that_reaches_further_is_refused(spark):
    """A new version of Spark may bring more: look at what each does, then add it to a set of confinement.py."""
    import pyspark

    from tests.support.product_spark import CODE, FILES

    functions = dict(registered(spark.newSession()))
    assert len(functions) > 500
    assert functions.keys() >= CODE | FILES - {"python_worker_logs"}
    jars = Path(pyspark.__file__).parent / "jars"
    suspects = set()
    (jar,) = jars.glob("spark-catalyst_2*.jar")
    with zipfile.ZipFile(jar) as classes:
        known = set(classes.namelist())
        for name, kind in functions.items():
            path = kind.replace(".", "/") + ".class"
            if path in known and any(word in classes.read(path) for word in SUSPICIOUS):
                suspects.add(name)
    assert suspects >= {"reflect", "java_method"}
    assert suspects - CODE - FILES == set()


def test_no_variable_of_the_environment_is_read(shop, monkeypatch):
    monkeypatch.setenv("CANARY", SECRET)
    for text in ("${env:CANARY}", "${system:user.dir}", "${spark.app.name}", "${hiveconf:spark.app.name}"):
        assert rows(shop, f"select '{text}' as a") == [(text,)]
