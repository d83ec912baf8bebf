"""Where a log ends that a running broker appends to: before the part of its file that is not used yet.

With `preallocate=true`, the active segment has its full size from its beginning, and ends with zeros. The broker knows
how many bytes it uses, and cuts off the rest when it rolls the segment or stops (FileRecords.trim). A reader ends there
without a fault, as a consumer does. After a crash no broker runs, and the zeros are damage that `recover` cuts off.
"""

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.disk.live_logs import is_newest_log, is_of_running_broker
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.log.reading.readable import read_readable
from kafkalog_cli.log.reading.scan import CHUNK_BYTES

_ZERO = "0"


def is_unused_end(file: ReadableFile, fault: Fault) -> bool:
    """Whether a fault that ended a chain of batches is only the unused end of a log that a running broker writes to.

    Zeros are the unused end only in the active segment. Where the broker has rolled it meanwhile, the file is shorter.
    """
    position, is_size_zero = fault.position, fault.kind is FaultKind.SIZE_TOO_SMALL and fault.got == _ZERO
    if not (is_size_zero or fault.kind is FaultKind.TRAILING_BYTES) or not is_of_running_broker(file.path):
        return False
    if _ends_before(file, file.size_bytes - 1 if is_size_zero else position):
        return True
    # The scan has seen zeros. If the broker has appended a batch in their place since, the header is that of a batch.
    is_unused = _has_only_zeros(file, position) or (is_size_zero and not isinstance(header_at(file, position), Fault))
    return is_unused and is_newest_log(file.path)


def _ends_before(file: ReadableFile, position: int) -> bool:
    """Whether the file no longer has a byte at `position`."""
    got, fault = read_readable(file, position, memoryview(bytearray(1)))
    return not got and fault is None


def _has_only_zeros(file: ReadableFile, position: int) -> bool:
    """Whether all bytes from `position` on are zeros, as far as the file has them now."""
    buffer = bytearray(min(CHUNK_BYTES, file.size_bytes - position))
    while (position := file.data_from(position)) < file.size_bytes:
        got, fault = read_readable(file, position, memoryview(buffer)[: file.size_bytes - position])
        if fault is not None or buffer.count(0, 0, got) < got:
            return False
        if not got:
            break
        position += got
    return True
