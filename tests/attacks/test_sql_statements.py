"""Every way of Spark's grammar that leads out of a query: it is refused before anything runs, or leads nowhere.

A refused statement has started no job of Spark, read no secret, made no file and called no Java: `{java}` would set a
property. The queries that are answered name a secret in a place where Spark must not take it for a file.
"""

import os
import threading
import time

import pytest

from tests.spark.querying import make_shop, sql

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SECRET = "0c4nary5ecret"
PROPERTY = "kafkalog.attacked"
JAVA = f"'java.lang.System', 'setProperty', '{PROPERTY}', 'yes'"

FILES = {
    "--allow files": """
select * from (text.`{file}`)
select * from text.`{file}` tablesample (10 percent)
select * from orders union all select * from csv.`{file}`
select * from orders natural join json.`{file}`
select * from orders where exists (select 1 from text.`{file}`)
select * from orders join lateral (select * from parquet.`{file}`) on true
select transform(array(1), x -> (select max(value) from text.`{file}`))
select * from explode(array((select max(value) from text.`{file}`)))
select * from range((select count(*) from text.`{file}`))
select * from explode(TABLE(text.`{file}`))
select * from orders order by (select max(value) from text.`{file}`)
select 1 limit (select count(*) from text.`{file}`)
select * from orders offset (select count(*) from text.`{file}`)
select count(*) filter (where value in (select value from text.`{file}`)) from orders
select * from orders group by cube (topic, (select max(value) from text.`{file}`))
select * from orders pivot (max((select max(value) from text.`{file}`)) for partition in (0))
select * from orders unpivot (a for b in (key, value)) where b in (select value from text.`{file}`)
with recursive r as (select value from text.`{file}` union all select value from r where false) select * from r
with recursive r(n) as (select 1 union all select n + 1 from r where n < (select count(*) from text.`{file}`)) select * from r
from text.`{file}` |> where true
from orders |> union all table text.`{file}`
from orders |> join text.`{file}`
from orders |> extend (select max(value) from text.`{file}`) as x
from orders |> set value = (select max(value) from text.`{file}`)
from orders |> aggregate max((select max(value) from text.`{file}`))
values (1), ((select max(value) from text.`{file}`))
select identifier('value') from text.`{file}`
select input_file_name(), value from text.`{file}`
select _metadata.file_path from text.`{file}`
select * from stream(text.`{file}`)
select * from text.`{file}` with (wholetext = true)
select * from spark_catalog.text.`{file}`
select * from spark_catalog.default.orders
select * from system.session.orders
select * from global_temp.orders
select * from information_schema.tables
select * from jdbc.`jdbc:h2:mem:a`
select * from kafka.`x`
select * from delta.`{file}`
select * from image.`{file}`
select * from libsvm.`{file}`
select * from statestore.`{file}`
select * from `state-metadata`.`{file}`
select * from `kafkalog-table`.`{file}`
select * from `{source}`.`{file}`
select * from hive.`{file}`
select * from avro.`{file}` a join orc.`{file}` b on true
select * from python_worker_logs()
select from_protobuf(value, 'x', '{file}') from orders
select to_protobuf(named_struct('a', 1), 'x', '{file}')
select xpath('<a/>', 'document("file://{file}")')
SeLeCt * FrOm TeXt . `{file}`
select * from /* text */ `TEXT` /* . */ . /* x */ `{file}` -- orders
select * from text.`file://{file}`
select * from text.`/../..{file}*`
select * from csv.`data:,x`
select * from text.`http://127.0.0.1:1/`
select * from jdbc.`jdbc:derby:memory:x;create=true`
select * from spark_catalog.default.text
select * from `spark_catalog`.`text`.`{file}`
select * from session.text.`{file}`
select * from org.apache.spark.sql.execution.datasources.text.`{file}`
select * from `com.databricks.spark.csv`.`{file}`
select * from socket.`{file}`
select * from identifier('text').`{file}`
with orders as (select * from text.`{file}`) select * from orders
select * from (values (1)) v(a), lateral (table text.`{file}`)
select * from orders, lateral explode(array((select max(value) from text.`{file}`)))
from orders |> except all table text.`{file}`
from orders |> join lateral (table text.`{file}`)
from orders |> as o |> where exists (table text.`{file}`)
select /*+ broadcast(orders) */ * from text.`{file}`
select * from PYTHON_WORKER_LOGS()
select * from xml.`{file}`
select * from binaryFile.`{file}`
select * from `org.apache.spark.sql.execution.datasources.v2.text.TextDataSourceV2`.`{file}`
select * from rate.`x`
select * from orders left anti join csv.`{file}` on true
select * from orders having (select count(*) from text.`{file}`) > 0
select sum(1) over (order by (select max(value) from text.`{file}`)) from orders
select * from orders window w as (partition by (select 1 from text.`{file}`))
with a as (with b as (table text.`{file}`) select * from b) select * from a
select * from text.`jar:file:{file}!/x`
""",
    "--allow java": """
select reflect(class => 'a', method => 'b', 'x')
select session.reflect({java})
select system.session.reflect({java})
select reflect({java}) over (partition by 1)
select aggregate(array(1), 0, (a, x) -> length(reflect({java})))
select named_struct('a', reflect({java})).a
select case when true then java_method({java}) end
select cast(try_reflect({java}) as binary)
select java_method({java}) is null
select * from orders join range(1) on java_method({java}) = 'x'
select * from orders group by java_method({java}) having java_method({java}) is not null
select * from orders cluster by java_method({java})
select * from orders distribute by java_method({java})
select * from orders qualify java_method({java}) = 'x'
select percentile_cont(0.5) within group (order by length(java_method({java}))) from orders
select listagg(java_method({java})) within group (order by 1) from orders
select extract(year from java_method({java}))
select trim(both java_method({java}) from 'a')
select 'x' like any ('a', java_method({java}))
select interval '1' day * length(java_method({java}))
select * from orders timestamp as of java_method({java})
select * from orders lateral view outer explode(array(try_reflect({java}))) t as x
select * from stack(1, java_method({java}))
from orders |> select java_method({java})
from orders |> where reflect({java}) is null
values (reflect({java}))
with recursive r(n) as (select 1 union all select length(reflect({java})) from r where n < 2) select * from r
select `ReFlEcT`({java})
select reflect /**/ ({java})
select `system`.`builtin`.`TRY_REFLECT`({java})
select spark_catalog.default.reflect({java})
from orders |> pivot (max(reflect({java})) for partition in (0))
from orders |> aggregate count(*) group by reflect({java})
from orders |> extend try_reflect({java}) as x
from orders |> set topic = java_method({java})
from orders |> drop key |> order by reflect({java})
from orders |> limit length(reflect({java}))
select array_sort(array(1, 2), (a, b) -> length(java_method({java})))
select any_value(reflect({java})) filter (where reflect({java}) is null) from orders
select orders.*, reflect({java}) from orders limit 0
select if(false, reflect({java}), 1)
select from_json('x', reflect({java}))
select * from variant_explode(parse_json(java_method({java})))
select * from json_tuple(reflect({java}), 'a')
select /*+ coalesce(reflect({java})) */ * from orders
select * from orders for system_time as of reflect({java})
select java_method('java.lang.Runtime', 'getRuntime')
select map_filter(map(1, 2), (k, v) -> reflect({java}) = 'x')
select * from range(length(java_method({java})))
select max_by(key, reflect({java})) from orders
select\tjava_method\t({java})
""",
    "no expression may make the name": """
select identifier('reflect')({java})
select identifier(concat('ref', 'lect'))({java})
select identifier('val' || 'ue') from orders
select * from identifier('explode')(array(xpath_string('<!DOCTYPE a SYSTEM "file://{file}"><a/>', 'a')))
select * from identifier('inline')(array(from_xml('<a/>', 'b int', map('rowValidationXSDPath', '{file}'))))
select * from orders, lateral identifier('explode')(xpath('<!DOCTYPE a SYSTEM "file://{file}"><a/>', 'a'))
select * from identifier('range')(length(xpath_string('<!DOCTYPE a SYSTEM "file://{file}"><a/>', 'a')))
select * from identifier('range')(3)
select * from identifier('text.' || '`{file}`')
select * from identifier(lower('TEXT.`') || '{file}' || '`')
with a as (select 'text.`{file}`' as n) select * from identifier(a.n)
select * from identifier((select 'text.`{file}`'))
""",
    "sql runs queries": """
create temporary view v using text options (path '{file}')
create or replace temporary view v as select * from text.`{file}`
create global temporary view v as select 1
create view v as select 1
create table t using parquet location '{made}' as select 1
create external table t (a int) location '{made}'
create table t like orders
create database d location '{made}'
create temporary function f as 'x.Y' using jar '{file}'
create temporary function f() returns string return reflect({java})
create function f(x int) returns table (a int) return select 1
declare x int default 1
declare or replace variable x = (select max(value) from text.`{file}`)
set var x = 1
set variable x = (select 1)
drop table orders
drop temporary variable x
alter view orders rename to b
alter table orders set location '{made}'
truncate table orders
msck repair table orders
insert into orders values (1)
insert overwrite directory '{made}' using csv select 1
insert overwrite local directory '{made}' using json select 1
insert into text.`{made}` select 'a'
insert overwrite parquet.`{made}` select 1
with a as (select 1) insert overwrite directory '{made}' using csv select * from a
from orders insert overwrite directory '{made}' using csv select 1
from (select 1) insert overwrite directory '{made}' using csv select 1 insert overwrite directory '{made}2' using csv select 2
delete from orders
update orders set value = null
merge into orders using orders b on true when matched then delete
load data local inpath '{file}' into table orders
cache table orders
cache lazy table x as select * from text.`{file}`
uncache table orders
clear cache
refresh table orders
refresh '{file}'
refresh function abs
add jar '{file}'
add jar ivy://a:b:c
add file '{file}'
add archive '{file}'
list jars
list files
set
set -v
set spark.sql.runSQLOnFiles=true
set time zone 'UTC'
set catalog x
reset
use kafkalog
analyze table orders compute statistics
analyze tables compute statistics
explain select 1
explain extended select * from text.`{file}`
show tables
show functions
show create table orders
show columns in text.`{file}`
show partitions orders
show tblproperties orders
show views
show catalogs
describe orders
describe query select * from text.`{file}`
describe function reflect
describe text.`{file}`
describe database default
comment on table orders is 'x'
begin select 1; end
begin declare x int; set x = 1; select x; end
begin insert overwrite directory '{made}' using csv select 1; end
begin for r as select * from text.`{file}` do select r.value; end for; end
begin while true do select 1; end while; end
begin declare exit handler for sqlexception begin select reflect({java}); end; select 1/0; end
execute immediate 'select 1'
execute immediate 'select * from text.`{file}`'
execute immediate 'select reflect(?, ?)' using 'a', 'b'
execute immediate (select 'add jar x')
select transform(*) using 'cat {file}' from orders
from orders map value using 'touch {made}' as x
from (from orders map value using 'cat' as x) r reduce x using 'touch {made}'
select * from (select transform(value) using 'touch {made}' as (a) from orders) limit 0
select * from range(1) where exists (select transform(value) using 'touch {made}' as (a) from orders)
begin set spark.sql.runSQLOnFiles = true; select * from text.`{file}`; end
begin if true then insert overwrite directory '{made}' using csv select 1; end if; end
begin declare s = 'select 1'; execute immediate s; end
begin loop leave l; end loop; end
begin declare c cursor for select * from text.`{file}`; open c; end
begin select 1; declare y int; end
begin declare exit handler for sqlstate 'xx' begin end; end
execute immediate concat('sel', 'ect 1')
create or replace temp view v using csv options (path '{file}')
create materialized view v as select 1
create streaming table t as select 1
create flow f as insert into orders by name select 1
create table parquet.`{made}` as select 1
create or replace temporary function f(a int) returns int return (select count(*) from text.`{file}`)
insert overwrite directory using parquet options (path '{made}') select 1
from orders insert into text.`{made}` select 'x'
with x as (select 'x') insert into csv.`{made}` select * from x
load data local inpath 'file:{file}' into table orders partition (a = 1)
merge with schema evolution into orders using orders b on true when not matched then insert *
explain formatted insert overwrite directory '{made}' using csv select 1
/* c */ set `spark.sql.runSQLOnFiles` = `true`
set current_path = x
begin repeat select 1; until true end repeat; end
execute immediate "insert overwrite directory '{made}' using csv select 1"
cache table x options ('storageLevel' 'DISK_ONLY') as select * from text.`{file}`
insert into orders replace where true select 1
drop table identifier('orders')
""",
    "[": """
select * from read_files('{file}')
select * from read_files('{file}', format => 'text')
select * from cloud_files('{file}', 'text')
select * from inline(TABLE text.`{file}`)
select * from identifier('text.' || '`{file}`') as of version 1
select * from orders where offset = any (select 1 from text.`{file}`)
insert overwrite local directory '{made}' stored as textfile select 1
insert overwrite local directory '{made}' row format delimited select 1
select transform(value) row format serde 'x.Y' using 'touch {made}' as (a) from orders
select * from (insert into text.`{made}` select 1)
with a as (insert into text.`{made}` select 1) select * from a
select * from orders tablesample (bucket 1 out of 2 on java_method({java}))
select * from orders version as of (select reflect({java}))
select {{fn reflect({java})}}
select * from orders lateral view identifier('explode')(array(1)) t as x
select :a
select ?
select 1; add jar '{file}'
call p()
lock table orders shared
grant select on orders to x
dfs -ls /
!ls
select reﬂect({java})
select U&'reflect'({java})
select refl\\u0065ct({java})
select * from read_files(path => '{file}', format => 'text')
select * from read_csv('{file}')
select * from kafkalog(path => '{file}')
select load_file('{file}')
create temporary function f(a string) returns string language python as 'return open(a).read()'
from orders |> insert into text.`{made}`
copy into orders from '{file}'
call spark_catalog.default.p(a => 1)
select 1 into outfile '{made}'
""",
    "there is no view": """
select * from kafkalog.`{file}`
select * from text with (path = '{file}')
select * from `{file}`
select * from `text.{file}`
""",
}  # fmt: skip
REFUSED = [(query, said) for said, queries in FILES.items() for query in queries.strip().splitlines()]

ANSWERED = [
    "select /*+ mapjoin(text.`{file}`), repartition(2) */ value from orders",
    "select value from orders with (path = '{file}', location = '{file}')",
    "select from_csv('a', 'b string', map('path', '{file}', 'columnNameOfCorruptRecord', 'c')) x",
    "select from_json('a', 'b string', map('path', '{file}')) x",
    "select input_file_name() from orders",
    "select current_catalog(), current_database(), current_user()",
    "select * from sql_keywords() limit 1",
    "with recursive r(n) as (select 1 union all select n + 1 from r where n < 9) select max(n) from r;",
    "with text as (select 1 a) select * from text",
    """select 1 as `reflect({java})`, "text.`{file}`" x, 'begin insert overwrite directory' y""",
    "select * from orders, lateral (select explode(array(1, 2)) e)",
    "from orders |> where partition = 0 |> aggregate count(*) n group by topic",
]

DOCUMENTS = [
    '<!DOCTYPE a [<!ENTITY x SYSTEM "file://{}">]><r><a>&x;</a></r>',
    '<!DOCTYPE r SYSTEM "file://{}"><r><a>1</a></r>',
    '<!DOCTYPE r PUBLIC "a" "file://{}"><r><a>1</a></r>',
    '<!DOCTYPE r [<!ENTITY % p SYSTEM "file://{}"> %p;]><r><a>1</a></r>',
    '<r xmlns:xi="http://www.w3.org/2001/XInclude"><a><xi:include href="file://{}" parse="text"/></a></r>',
    '<r xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="file://{}"><a>1</a></r>',
]
READERS = ["from_xml('{}', 'a string')", "schema_of_xml('{}')", "cast(from_xml('{}', 'a variant') as string)"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory, spark):
    del spark
    return make_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def names(tmp_path):
    from kafkalog_cli.spark import KafkalogDataSource

    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET + "\n")
    source = f"{KafkalogDataSource.__module__}.{KafkalogDataSource.__name__}"
    return {"file": secret, "made": tmp_path / "made", "java": JAVA, "source": source}


def jobs(spark):
    return list(spark.sparkContext.statusTracker().getJobIdsForGroup())


def is_untouched(spark, names):
    """Nothing but the secret lies in its directory, and nothing was called."""
    there = [path.name for path in names["file"].parent.iterdir()]
    return there == ["secret.txt"] and spark._jvm.java.lang.System.getProperty(PROPERTY) is None


@pytest.mark.exhaustive
@pytest.mark.parametrize(("query", "said"), REFUSED)
def test_a_statement_is_refused_before_anything_runs(spark, shop, names, query, said, evidence):
    before = jobs(spark)
    code, out, err = sql(shop, query.format(**names))
    assert (code, out) == (2, ""), (out, err)
    assert said in err
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    assert SECRET not in err
    assert jobs(spark) == before
    assert is_untouched(spark, names)
    evidence("R39", 1, PARTS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("query", ANSWERED)
def test_a_query_that_is_answered_leads_nowhere(spark, shop, names, query, evidence):
    code, out, err = sql(shop, query.format(**names))
    assert (code, err) == (0, "")
    assert SECRET not in out
    assert is_untouched(spark, names)
    evidence("R39", 1, PARTS)


@pytest.fixture
def watched(tmp_path):
    """A pipe, and a list that grows whenever somebody opens it for reading; a reader gets the secret."""
    pipe, opened, ended = tmp_path / "pipe", [], threading.Event()
    os.mkfifo(pipe)

    def watch():
        while not ended.is_set():
            try:
                descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                time.sleep(0.01)
                continue
            opened.append(pipe)
            os.write(descriptor, f"<!ENTITY y '{SECRET}'>".encode())
            os.close(descriptor)
            time.sleep(0.2)

    thread = threading.Thread(target=watch)
    thread.start()
    yield pipe, opened
    ended.set()
    thread.join()


@pytest.mark.parametrize("reader", READERS)
def test_no_record_of_xml_makes_spark_open_a_file(shop, watched, reader, evidence):
    """The text of XML may come from whoever writes records."""
    pipe, opened = watched
    for document in DOCUMENTS:
        code, out, err = sql(shop, f"select {reader.format(document.replace('{}', str(pipe)))} as x")
        assert (code, err) == (0, "")
        assert SECRET not in out
    assert opened == []
    evidence("R39", len(DOCUMENTS), PARTS)


def test_a_function_allowed_to_open_files_is_seen_opening_the_pipe(shop, watched):
    """A function that needs --allow files, because it opens what a document names, is seen doing so."""
    pipe, opened = watched
    document = DOCUMENTS[1].replace("{}", str(pipe))
    sql(shop, f"select xpath_string('{document}', 'r/a') as x", "--allow", "files")
    assert opened


PARTS = len(REFUSED) + len(ANSWERED) + len(READERS)
"""The tests that tell of R39."""
