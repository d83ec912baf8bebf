"""Parses sizes on the command line: bytes, or a number with a unit."""

from __future__ import annotations

import re

from kafkalog_cli.errors import UsageError

_UNIT_BYTES = {
    "": 1,
    **{unit: 1000**power for power, unit in enumerate(("kb", "mb", "gb", "tb"), 1)},
    **{unit: 1024**power for power, unit in enumerate(("kib", "mib", "gib", "tib"), 1)},
}
_SIZE = re.compile(r"(\d{1,19}(?:\.\d{1,9})?(?:[eE]\+?\d{1,2})?) ?([A-Za-z]*)")


def parse_size_bytes(text: str) -> int:
    """Parse `1048576`, `1e6`, `50MiB` (1024) or `50MB` (1000) into bytes. Raises UsageError."""
    found = _SIZE.fullmatch(text)
    unit = None if found is None else _UNIT_BYTES.get(found[2].lower())
    if found is None or unit is None:
        raise UsageError(
            reason=f"{text!r} is not a size: give bytes, or a number with kB, MB, GB, TB, KiB, MiB, GiB or TiB"
        )
    number = found[1]
    return int(number) * unit if number.isdigit() else int(float(number) * unit)
