"""The data source `kafkalog` of Spark: partitions of log directories as a DataFrame, without a running broker."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
)

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.scans.offsets import partitions_of, ranges_of
from kafkalog_cli.ops.scans.options import SourceOptions, check_faults_are_shown, read_options, stream_options
from kafkalog_cli.ops.scans.schema import columns_of, headers_tell_all
from kafkalog_cli.ops.scans.splits import TIMES_OF_HEADERS, tasks_of
from kafkalog_cli.spark.jobs import without_traceback
from kafkalog_cli.spark.planned_tasks import read_task, spark_partitions
from kafkalog_cli.spark.types import spark_schema


class KafkalogDataSource(DataSource):
    """`spark.read.format("kafkalog")`, once registered: `spark.dataSource.register(KafkalogDataSource)`.

    Options and columns are in docs/spark.md. Errors are KafkalogErrors, which Spark wraps.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "kafkalog"

    @without_traceback()
    def schema(self) -> Any:
        """Return the columns that the options select, as a StructType."""
        fs, options = RealFilesystem(), self._of_either()
        if any(column.is_struct for column in options.columns):
            from kafkalog_cli.ops.scans.structs.columns import StructTypes

            types = StructTypes(fs, options.decoding, partitions_of(fs, options))
            return spark_schema(map(types.typed, options.columns))
        return spark_schema(options.columns)

    def _of_either(self) -> SourceOptions:
        """Return the options of a batch or a stream, whose starts may differ: Spark does not say which this is."""
        try:
            return read_options(self.options)
        except UsageError as error:
            try:
                return stream_options(self.options)
            except UsageError:
                raise error from None

    @without_traceback()
    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader of new records, micro-batch by micro-batch."""
        from kafkalog_cli.spark.stream import StreamReader

        return StreamReader(_with_columns(stream_options(self.options), schema))

    @without_traceback()
    def reader(self, schema: Any) -> DataSourceReader:
        """Return a reader of these columns."""
        return Reader(_with_columns(read_options(self.options), schema))

    @without_traceback()
    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Return a writer of rows as new partitions of a log directory; the columns are in docs/spark.md."""
        from kafkalog_cli.spark.writer import Writer, write_options

        return Writer(write_options(self.options), schema.names, overwrite=overwrite)


class Reader(DataSourceReader):
    """Plans the tasks of a read and reads them. Spark pickles it to every worker.

    It has no `pushFilters`: all scans of one `load()` would share the filters of one scan (see `offset_limits`).
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self.warns = True
        """Whether tasks print what they do not decode."""

    @without_traceback()
    def partitions(self) -> list[Any]:
        """Return a partition of Spark for each task; its value is a tuple of `splits.Piece`s."""
        fs, options = RealFilesystem(), self._options
        ranges = ranges_of(fs, partitions_of(fs, options), options)
        times = TIMES_OF_HEADERS if headers_tell_all(options.columns) else 1
        tasks = tasks_of(fs, ranges, options.min_partitions, options.max_records, times=times)
        return spark_partitions(tasks)

    def read(self, partition: Any) -> Iterator[Any]:
        """Iterate over the RecordBatches of a task."""
        return read_task(partition, self._options, warns=self.warns)


def _with_columns(options: SourceOptions, schema: Any) -> SourceOptions:
    """Return the options with the columns of a schema. Raises UsageError for columns that cannot be read."""
    columns = columns_of(schema)
    check_faults_are_shown(columns, options.mode)
    return options._replace(columns=columns)
