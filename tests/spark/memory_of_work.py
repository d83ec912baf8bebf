"""The peak memory of the work of a Spark worker, in a process of its own: `memory_of_work.py WORK SOURCE TARGET`.

Prints the MiB that the process took at most beyond what it had after its imports, and how the work ended.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.spark.exporting import FileFormat, export
from tests.spark.importing import import_into, new_log_dir
from tests.spark.spark_reading import tasks
from tests.support.product import KafkalogError, RealFilesystem, Unreadable
from tests.support.product_spark import TABLES

CONFIG = {"max.message.bytes": str(1 << 29), "segment.bytes": str(1 << 30)}


def read(source, target):
    del target
    reader, parts = tasks(source)
    return sum(batch.num_rows for part in parts for batch in reader.read(part))


def to_parquet(source, target):
    return sum(file.records for file in export(source, target).files)


def to_arrow(source, target):
    return sum(file.records for file in export(source, target, format=FileFormat.ARROW, codec="none").files)


def from_files(source, target):
    made = import_into(new_log_dir(target), source, config=CONFIG, topic="t", new_offsets=True)
    return sum(one.built.records for one in made.done)


def coordinator_tables(source, target):
    """What the tasks of `sql` do that read tables of coordinators; the names of the tables that a limit refuses."""
    del target
    [path] = source.iterdir()
    refused = []
    for table in TABLES.values():
        if path.name.startswith(f"{table.topic}-"):
            try:
                for _ in table.rows(RealFilesystem(), [str(path)], lambda damage: None):
                    pass
            except Unreadable:
                refused.append(table.name)
    return refused


WORKS = {work.__name__: work for work in (read, to_parquet, to_arrow, from_files, coordinator_tables)}


def main():
    name, source, target = sys.argv[1:]
    with Path("/proc/self/statm").open() as file:
        base = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
    child = os.fork()
    if not child:
        try:
            said = str(WORKS[name](Path(source), Path(target)))
        except KafkalogError as error:
            said = str(error)
        print(said, flush=True)
        os._exit(0)
    _, status, used = os.wait4(child, 0)
    assert status == 0
    print((used.ru_maxrss >> 10) - base)


if __name__ == "__main__":
    main()
