"""Every way of DuckDB that leads out of a query: it is refused, reads no secret, makes no file, and reaches nobody."""

# ruff: noqa: F811 - `shop` is a fixture

import socket

import pytest

from tests.spark.conftest import shop  # noqa: F401 fixture
from tests.spark.querying import sql

pytest.importorskip("duckdb", reason="the extra `duckdb` is not installed: nothing of DuckDB is tested")

SECRET = "0c4nary5ecret"

REFUSED = r"""
select * from read_csv('{file}')
select * from read_csv_auto('{file}')
select * from read_text('{file}')
select * from read_blob('{file}')
select * from read_json('{file}')
select * from read_ndjson_objects('{file}')
select * from read_parquet('{file}')
select * from parquet_scan('{file}')
select * from parquet_metadata('{file}')
select * from read_duckdb('{file}')
select * from sniff_csv('{file}')
select * from glob('{folder}/*')
select * from '{file}'
from '{file}'
select * from "{file}"
table '{file}'
select * from file('{file}')
select * from query('select * from read_text(''{file}'')')
select * from query_table('{file}')
select * from query_table(['{file}'])
select * from json_execute_serialized_sql(json_serialize_sql('select * from read_text(''{file}'')'))
with a as (select * from read_text('{file}')) select * from a
select (select content from read_text('{file}'))
select * from orders where exists (select 1 from read_text('{file}'))
select * from orders, lateral (select * from read_text('{file}'))
select list_transform([1], x -> (select content from read_text('{file}')))
select * from read_text(getvariable('a') || '{file}')
select getenv('HOME')
select * from duckdb_secrets()
select * from which_secret('{file}', 's3')
select * from read_csv('http://127.0.0.1:{port}/x')
select * from read_parquet('s3://127.0.0.1:{port}/x')
select * from read_csv('https://127.0.0.1:{port}/x')
copy (select 1) to '{made}'
copy orders to '{made}' (format parquet)
copy (select 1) to program 'touch {made}'
copy orders from '{file}'
export database '{made}'
import database '{folder}'
attach '{made}' as a
attach 'http://127.0.0.1:{port}/x' as a
detach memory
use memory
install httpfs
install httpfs from 'http://127.0.0.1:{port}'
force install '{file}'
load httpfs
load '{file}'
update extensions
set enable_external_access = true
set lock_configuration = false
set temp_directory = '{made}'
set variable a = 1
reset enable_external_access
pragma enable_profiling
pragma disable_checkpoint_on_shutdown
pragma database_list
call enable_logging()
call pragma_version()
select * from enable_logging()
create table t as select 1
create or replace view orders as select 1
create macro f() as 1
create secret (type s3)
create schema s
create type t as enum ('a')
drop view orders
drop schema kafkalog cascade
alter view orders rename to b
comment on view orders is 'x'
insert into orders select * from orders
update orders set partition = 1
delete from orders
truncate orders
merge into orders using orders b on true when matched then delete
begin
commit
checkpoint
vacuum
analyze
prepare p as select 1
execute p
deallocate p
explain analyze select * from read_text('{file}')
explain select 1
select 1; copy (select 1) to '{made}'
select * from arrow_scan(1, 1, 1)
select * from arrow_scan(1::pointer, 1::pointer, 1::pointer)
select * from python_arrow_scan(1, 1, 1)
select * from pandas_scan(1)
select * from seq_scan('orders')
select * from postgres_scan('', '', '')
select * from sqlite_scan('{file}', 't')
select * from iceberg_scan('{file}')
select * from shellfs('{file}')
select * from SECRET
select * from sys.modules
select * from orders_of_nobody
"""


@pytest.fixture(scope="module")
def listener():
    """A server that nobody may reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        yield server


@pytest.mark.parametrize("query", [line for line in REFUSED.splitlines() if line])
def test_a_duckdb_query_reaches_no_file_extension_or_setting(shop, tmp_path, listener, query):
    (tmp_path / "in").mkdir()
    file, made = tmp_path / "in" / "secret.txt", tmp_path / "made"
    file.write_text(SECRET + "\n")
    text = query.format(file=file, folder=tmp_path / "in", made=made, port=listener.getsockname()[1])
    code, out, err = sql(shop, text, "--engine", "duckdb")
    assert code in (1, 2), (text, out)
    assert out == ""
    assert SECRET not in err
    assert (err.count("\n"), "Traceback" in err) == (1, False), err
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["in", "secret.txt"]
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_views_of_the_system_show_nothing_of_the_machine(shop):
    for query in (
        "select * from duckdb_settings()",
        "select * from duckdb_views()",
        "select * from pg_catalog.pg_class",
    ):
        code, out, err = sql(shop, query, "--engine", "duckdb", "--format", "json")
        assert (code, err) == (0, ""), (query, err)
        assert str(shop) not in out
