"""Reads made-up segments into batches and blocks, by the plain or the compiled kernels."""

from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.log.reading.read import RecordReader
from kafkalog_cli.log.reading.scan import Scan
from tests.support.faulty_fs import BytesFile


def chunks(data, *, compiled=False, seven=False):
    choice = KernelChoice(forced=compiled)
    yield from Scan(BytesFile(data), choice=choice, deep=True, seven_base_offset=0 if seven else None)


def blocks(data, *, compiled=False, seven=False):
    """A block lives until the next one is asked for."""
    reader = RecordReader()
    for chunk in chunks(data, compiled=compiled, seven=seven):
        yield from reader.blocks(chunk)
