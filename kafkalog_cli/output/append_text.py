"""The text output of append: one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkalog_cli.errors import as_typed, counted
from kafkalog_cli.ops.append.append import AppendPlan
from kafkalog_cli.output.progress import sized


def append_words(plan: AppendPlan) -> str:
    """Return what was appended, in words."""
    appended = plan.appended
    if appended is None or not appended.records:
        return "nothing to append"
    records = counted(appended.records, "record", "records")
    batches = counted(appended.batches, "batch", "batches")
    parts = [f"{records} appended at {appended.first_offset} in {batches} ({sized(appended.size_bytes)})"]
    if appended.rolled:
        parts.append(f"{counted(len(appended.rolled), 'segment', 'segments')} begun")
    if plan.is_cut_short:
        parts.append("interrupted")
    return ", ".join(parts)


def interrupted_words(appended: Mapping[int, int], end_offsets: Mapping[int, int], *, has_stdin: bool) -> str:
    """Return what an interrupted append has done: the number of appended records per partition, and the log's end."""
    if not any(appended.values()):
        done = "interrupted: no record of the input is appended"
    elif len(appended) == 1:
        ((number, count),) = appended.items()
        what = "the first record" if count == 1 else f"the first {count} records"
        verb = "is" if count == 1 else "are"
        done = f"interrupted: {what} of the input {verb} appended, up to offset {end_offsets[number] - 1}, and no more"
    else:
        parts = [
            f"partition {number}: {counted(count, 'record', 'records')}"
            + (f" up to offset {end_offsets[number] - 1}" if count else "")
            for number, count in sorted(appended.items())
        ]
        done = f"interrupted: of the input's records for each partition the first are appended: {', '.join(parts)}"
    again = "; standard input has to be sent again, from its beginning" if has_stdin else ""
    return done + again


def command_that_goes_on(argv: Sequence[str], appended: Mapping[int, int]) -> str:
    """Return the command line that appends the remaining records: `argv`, with --skip-records for `appended` records.

    `appended` is the number of records per partition.
    """
    words, at = list(argv), 0
    while at < len(words) and words[at] != "--":
        name, equals, _ = words[at].partition("=")
        if name == "--skip-records":
            del words[at : at + (1 if equals else 2)]
        else:
            at += 1
    counts = {number: count for number, count in sorted(appended.items()) if count}
    skipped = [str(count) if len(appended) == 1 else f"{number}:{count}" for number, count in counts.items()]
    command = words.index("append") + 1 if "append" in words else 0
    words[command:command] = [word for count in skipped for word in ("--skip-records", count)]
    return " ".join(["kafkalog", *map(as_typed, words)])
