"""The work of import tasks: sort the records of a file by partition, and build one partition."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from secrets import token_hex
from typing import Any, NamedTuple

from kafkalog_cli.change.new_partition import remove_all
from kafkalog_cli.change.new_partitions import make_staged, staged_name
from kafkalog_cli.disk.durable import attributes_in
from kafkalog_cli.disk.fs import RealFilesystem, WritableFilesystem
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.disk.lock import LockPolicy, lock_log_dir
from kafkalog_cli.errors import BadInput
from kafkalog_cli.ops.importing.building import TopicStyle, build
from kafkalog_cli.ops.importing.planning import Job, JobDone, prove
from kafkalog_cli.ops.importing.scattering import Part, Places, Scatter, in_offset_order
from kafkalog_cli.ops.importing.sources import KNOWN_COLUMNS, PLACE_COLUMNS, InputFile, batches

_ROWS = "kafkalog-rows"
"""The topic in the names of directories that hold rows of several partitions."""


class Where(NamedTuple):
    """The log directory, the run, and the policy for the lock that keeps brokers out."""

    log_dir: str
    run: str
    policy: LockPolicy = LockPolicy()

    @contextmanager
    def staged(self, fs: WritableFilesystem, topic: str, partition: int) -> Iterator[str]:
        """Yield a name for a staging directory of one attempt of a task; it is removed after an exception.

        Spark may run a task twice at the same time. The log directory is locked meanwhile.
        """
        name = staged_name(topic, partition, self.run, token_hex())
        with lock_log_dir(fs, self.log_dir, self.policy):
            try:
                yield name
            except BaseException:
                remove_all(fs, f"{self.log_dir}/{name}")
                raise


class BuildTask:
    """The work of a task that builds a partition; it is sent to every worker.

    `job_bytes` is what all tasks together read.
    """

    def __init__(self, where: Where, styles: Mapping[str, TopicStyle], job_bytes: int, *, proves: bool) -> None:
        self._where = where
        self._styles = styles
        self._job_bytes = job_bytes
        self._proves = proves

    def __call__(self, job: Job) -> JobDone:
        """Build the partition. Raises BadInput, UsageError, NotSame, Locked, NotChanged, NoSpace, OSError."""
        fs, kernels, style = RealFilesystem(), KernelChoice(), self._styles[job.topic]
        kernels.expect(self._job_bytes)
        with self._where.staged(fs, job.topic, job.partition) as name:
            path = f"{self._where.log_dir}/{name}"
            try:
                built = build(fs, path, rows_of(job), style, kernels)
            except BadInput as error:
                raise BadInput(path=job.name, reason=str(error)) from error
            proof = None
            if self._proves:
                proof = prove(
                    fs, path, job.name, rows_of(job), style.now_ms, kernels,
                    with_offsets=style.writing.keep_offsets, append_time_ms=style.batches.append_time_ms,
                )  # fmt: skip
            status = fs.status(path)
        return JobDone(job.topic, job.partition, name, built, proof, None if status is None else status.inode)


def rows_of(job: Job) -> Iterator[Any]:
    """Iterate over a partition's rows: by offset if all files have offsets, else in file order. Raises BadInput."""
    columns = KNOWN_COLUMNS - set(PLACE_COLUMNS)
    if all(file.has_offsets for file in job.files):
        yield from in_offset_order(job.files, columns)
        return
    for file in job.files:
        yield from batches(file, columns)


class ScatterTask:
    """The work of a task that sorts a file by partition; it is sent to every worker."""

    def __init__(self, where: Where, places: Places) -> None:
        self._where = where
        self._places = places

    def __call__(self, item: tuple[int, InputFile]) -> list[Part]:
        """Sort the file with this number by partition. Raises BadInput, UsageError, Locked, OSError, SyncFailed."""
        number, file = item
        places = replace(self._places, partition=file.partition)
        if not places.is_topic_given:
            places = replace(places, topic=file.topic)
        return scattered(self._where, places, number, file.path, batches(file, KNOWN_COLUMNS))


def scattered(where: Where, places: Places, number: int, name: str, rows: Iterator[Any]) -> list[Part]:
    """Write the rows of input `number` to files by partition and return these; error messages call the input `name`."""
    fs = RealFilesystem()
    with where.staged(fs, _ROWS, number) as staged:
        directory = f"{where.log_dir}/{staged}"
        make_staged(fs, directory)
        return list(Scatter(fs, directory, attributes_in(fs, where.log_dir), places, number, name).run(rows))
