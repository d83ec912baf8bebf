"""Parts of `kafkalog dump-log`: decoded keys and values in JSON output, and the progress of a dump."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import directory_name
from kafkalog_cli.output.dump_text import java_path

if TYPE_CHECKING:
    from kafkalog_cli.format.values.decoder import ValueDecoder
    from kafkalog_cli.ops.decoding import Decoding
    from kafkalog_cli.ops.keys import WantedKey
    from kafkalog_cli.output.decoded_values import DecodedValues
    from kafkalog_cli.output.messages import Messages
    from kafkalog_cli.output.progress import Progress
    from kafkalog_cli.output.record_json_printer import JsonPrinter


class DumpedValues:
    """Decodes keys and values for JSON output, and reports contents that cannot be decoded."""

    def __init__(self, fs: Filesystem, messages: Messages, decoding: Decoding) -> None:
        self._fs = fs
        self._messages = messages
        self._decoding = decoding
        self._decoder: ValueDecoder | None = None

    def read_schemas(self, paths: list[str]) -> None:
        """Read the schemas for the files at `paths`. Raises PathNotFound, OSError."""
        if not self._decoding:
            return
        directories = [java_path(path).rpartition("/")[0] or "." for path in paths]
        self._decoder, notes = self._decoding.decoder(self._fs, directories)
        for note in notes:
            self._messages.warn(note.kind, note.message, path=note.path)

    def wanted_key(self, key: WantedKey, path: str) -> WantedKey:
        """Return the key for the records of the file at `path`."""
        return key.with_decoder(self._decoder).in_topic(directory_name(java_path(path).rpartition("/")[0]).topic or "")

    def of_topic(self, topic: str | None) -> DecodedValues | None:
        """Return what decodes the records of a topic; None if nothing is decoded."""
        if self._decoder is None or topic is None:
            return None
        from kafkalog_cli.output.decoded_values import DecodedValues

        return DecodedValues(self._decoder, topic)

    def report(self, path: str, printer: JsonPrinter, flush: Callable[[], None]) -> bool:
        """Report the contents of a file that were not decoded; return whether there are any."""
        failures = [] if printer.values is None else printer.values.failures()
        if not failures:
            return False
        flush()
        for one in failures:
            self._messages.warn("undecoded", one.message, path=path)
        return True


def advancing(
    progress: Progress, parts: Iterable[RecordBlock | BatchColumns | Fault], path: str
) -> Iterator[RecordBlock | BatchColumns | Fault]:
    """Yield the parts of a segment; the progress follows the end of their last batches."""
    done_bytes = 0
    for part in parts:
        yield part
        if not isinstance(part, Fault):
            batches, end = (part.batches, part.end_row) if isinstance(part, RecordBlock) else (part, len(part))
            end_bytes = int(batches.position[end - 1]) + int(batches.size_bytes[end - 1]) if end else done_bytes
            progress.advance(end_bytes - done_bytes, path)
            done_bytes = end_bytes
