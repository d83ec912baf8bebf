"""Read as far as the device can: a bad sector is a fault with its range, and what is before it is read."""

from collections.abc import Iterator

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.format.fault import Fault, FaultKind

DEVICE_BLOCK_BYTES = 4096
SECTOR_BYTES = 512
LINEAR_BLOCKS = 64
_PIECE_BYTES = 2 << 20


def read_readable(file: ReadableFile, position: int, buffer: memoryview) -> tuple[int, Fault | None]:
    """Read from `position` on as far as the device can: (number of bytes, fault with the unreadable range or None).

    The failing position is found by bisection, to a sector. So few reads fail: on a dying disk each failing read takes
    seconds.
    """
    try:
        return file.read_into(position, buffer), None
    except OSError as error:
        reason = error.strerror or str(error)
    done, failed = 0, len(buffer)
    while done < len(buffer):
        border = SECTOR_BYTES - (position + done) % SECTOR_BYTES
        half = (failed - done) // 2
        end = done + max(border, half - (position + done + half) % SECTOR_BYTES) if border < failed - done else failed
        try:
            got = file.read_into(position + done, buffer[done:end])
        except OSError:
            if end - done <= border:
                break
            failed = end
            continue
        done += got
        if done < end:
            return done, None
        if done == failed:  # the range can be read now
            failed = len(buffer)
    else:
        return done, None
    bad = _unreadable_bytes(file, position + done)
    return done, Fault(FaultKind.UNREADABLE, position + done, f"cannot be read: {reason}", bad)


def unreadable_ranges(file: ReadableFile, begin: int, end: int) -> Iterator[Fault]:
    """Yield a fault for each range of bytes `begin` to `end` that the device cannot read. Holes can be read."""
    buffer = bytearray(max(0, min(_PIECE_BYTES, end - begin)))
    while (begin := file.data_from(begin)) < end:
        got, fault = read_readable(file, begin, memoryview(buffer)[: end - begin])
        if fault is not None:
            yield fault
            begin = fault.position + (fault.size_bytes or SECTOR_BYTES)
        elif got:
            begin += got
        else:
            return


def _unreadable_bytes(file: ReadableFile, position: int) -> int:
    """Return the size of the unreadable range that starts at `position`.

    The search goes block by block at first, and then in growing leaps, which may skip readable blocks. The end is exact
    to a sector.
    """
    bad, here, blocks = position, position, 0
    while here == position or not _is_readable(file, here):
        bad, blocks = here, blocks + 1
        leap = DEVICE_BLOCK_BYTES << max(0, blocks - LINEAR_BLOCKS)
        here += leap - here % DEVICE_BLOCK_BYTES
        if here >= file.size_bytes:
            here = file.size_bytes
            break
    while here - bad > SECTOR_BYTES - bad % SECTOR_BYTES:
        half = max(bad + SECTOR_BYTES, (bad + here) // 2)
        half -= half % SECTOR_BYTES
        bad, here = (bad, half) if _is_readable(file, half) else (half, here)
    return here - position


def _is_readable(file: ReadableFile, position: int) -> bool:
    try:
        file.read_into(position, memoryview(bytearray(1)))
    except OSError:
        return False
    return True
