"""What command lines answer: how it is taken, stripped of what depends on the run, kept and compared."""

from __future__ import annotations

import difflib
import hashlib
import json
import lzma
import os
import re
import shutil
import stat
import sys
import time
import zlib
from pathlib import Path

from tests.conformance.rows import PARTITION
from tests.conformance.runner import run_in

ANSWERS = Path(__file__).with_name("answers")
SUFFIX = ".jsonl.xz"
PROCESSES = "processes"
"""The answers of test_processes.py, of which no log directory has the name."""
RUN = re.compile(r"\d{8}T\d{6}\.\d{3}Z-[a-z-]+-[0-9a-f]{4}")
VARYING = [
    (RUN, "RUN"),
    (
        re.compile(
            r'("(?:seconds|elapsed_s|elapsed_ms|duration_s|time_ms|age_ms|age_s|inode|device)": ?)[-\d.e"TZ:+]+'
        ),
        r"\1T",
    ),
    (re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|min)\b"), "T"),
]
"""Names of runs, durations and ages, and what stands for them."""
SIZE = re.compile(r'("(?:size_bytes|bytes)": ?)\d+|\b[\d.]+ (?:bytes|KiB|MiB)')
INPUTS = {
    "LINES": "one\ntwo\nthree\n",
    "KCAT": "".join(
        f'{{"topic":"k","partition":0,"offset":{offset},"ts":1700000000000,"key":"{offset}","payload":"v"}}\n'
        for offset in range(9)
    ),
}
"""Files that commands read."""
PROGRESS = re.compile(r'^\{"schema":"kafkalog\.progress/1".*\n', re.MULTILINE)
"""A command that needs more than a second reports its progress, which a busy machine decides."""
REPORT = re.compile(r"^\S.*\n(?: .*\n)*", re.MULTILINE)
ORDINARY_MODES = {"d755", "-644"}
STARTED = time.time()


def answers_of(row, root, place):
    """The answers to the commands of a row: exit code, output, and what became of the files."""
    place.mkdir(parents=True)
    try:
        if row.changes:
            shutil.copytree(root, place / "D", symlinks=True)
            make_writable(place / "D")
            if row.is_in_use:
                put_in_use(place, row.case)
        else:
            (place / "D").symlink_to(root, target_is_directory=True)
        (place / "NEW").mkdir()
        for name, text in INPUTS.items():
            (place / name).write_text(text)
        run, before, answers = "no-run", files_of(row, place), []
        for command in row.commands:
            ran = run_in(place, [run if word == "RUN" else word for word in command])
            run = next(reversed(RUN.findall(ran["out"])), run)
            answer = answer_of(ran["code"], ran["out"], ran["err"], place, root)
            if row.has_varying_output:
                answer["out"], answer["err"] = (SIZE.sub(r"\1T", answer[stream]) for stream in ("out", "err"))
            after = files_of(row, place)
            if row.changes or before != after:
                answer["files"] = changed_files(before, after)
            before = after
            answers.append(answer)
        return answers
    finally:
        shutil.rmtree(place)


def put_in_use(place, case):
    """Give the copy of a log directory modes that others may not read, and links as operators make them.

    Of four cases, one has a backup by hard links beside it, one has partitions that lie on another disk, and one a segment.
    """
    partitions = sorted(path for path in (place / "D").iterdir() if path.is_dir() and PARTITION.match(path.name))
    for path in (place / "D").rglob("*"):
        path.chmod(0o750 if path.is_dir() else 0o600 if path.stem == "0" * 20 else 0o640)
    style = zlib.crc32(case.encode()) % 4
    if style == 0:
        shutil.copytree(place / "D", place / "BACKUP", copy_function=os.link)
    for path in partitions:
        if style == 1:
            _move_and_link(path, place / "DISK" / path.name)
        for log in sorted(path.glob("*.log"))[: style == 2]:
            _move_and_link(log, place / "DISK" / path.name / log.name)


def _move_and_link(path, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)
    path.symlink_to(Path(os.path.relpath(target, path.parent)))


def answer_of(code, out, err, place, root):
    """The exit code and the streams, without what depends on the run."""
    return {"code": code, "out": stripped(out, place, root), "err": PROGRESS.sub("", stripped(err, place, root))}


def make_writable(top):
    for path in [top, *top.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)


def stripped(text, place, root):
    """The text without what depends on the run: paths, names of runs, durations."""
    text = text.replace(str(place), "PLACE").replace(str(root), "FIXTURE")
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    if "Non-consecutive offsets in " in text:  # dump-log has Java's order of reports: by a hash of the whole path
        text = "".join(sorted(REPORT.findall(text)))
    return text


def files_of(row, place):
    """Size, digest, mode and links of all files of a row, without what kafkalog keeps for undo.

    Of a copy in use also a time before this run: a command gives a file that one, or the present.
    """
    found = {}
    for path in sorted(place.rglob("*")):
        name = str(path.relative_to(place))
        if ".kafkalog" in name:
            continue
        status = path.lstat()
        if path.is_symlink():
            found[name.removeprefix("D/")] = f"link to {path.readlink()}"
            continue
        mode = f"{'d' if path.is_dir() else '-'}{stat.S_IMODE(status.st_mode):o}"
        facts = [] if mode in ORDINARY_MODES else [mode]
        if path.is_file() and not (row.has_varying_output and name.startswith("OUT/")):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
            links = [f"{status.st_nlink} links"] if status.st_nlink > 1 else []
            is_dated = row.is_in_use and status.st_mtime < STARTED
            times = [f"of {int(status.st_mtime)}"] if is_dated else []
            facts = [str(status.st_size), digest, *facts, *links, *times]
        found[name.removeprefix("D/")] = " ".join(facts)
    return found


def changed_files(before, after):
    """What a command has changed: the new facts by name, or null for what is gone."""
    return {name: after.get(name) for name in sorted({*before, *after}) if before.get(name) != after.get(name)}


def recorded_cases():
    """The names of the cases that have stored answers."""
    return sorted({path.name.removesuffix(SUFFIX) for path in ANSWERS.glob(f"*{SUFFIX}")} - {PROCESSES})


def read_answers(case):
    """The stored answers of a case, by the name of the row; none if there is no file."""
    path = ANSWERS / f"{case}{SUFFIX}"
    if not path.exists():
        return {}
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    return {entry["row"]: entry["answers"] for entry in map(json.loads, lines)}


def write_answers(case, answers):
    """Store the answers of a case."""
    ANSWERS.mkdir(exist_ok=True)
    lines = "".join(json.dumps({"row": name, "answers": found}) + "\n" for name, found in answers.items())
    (ANSWERS / f"{case}{SUFFIX}").write_bytes(lzma.compress(lines.encode(), preset=9 | lzma.PRESET_EXTREME))


def update(case, answers, found, config):
    """Print the differences, then store the answers. Of a worker, pytest-xdist shows only the standard error."""
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{case}: {len(found)} rows differ", *found, sep="\n", file=sys.stderr)
    write_answers(case, answers)


def differences(old, new):
    """For a person: each row that answers otherwise, as a unified diff."""
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield f"kafkalog {name}\n" + "\n".join(
                difflib.unified_diff(_lines(old.get(name)), _lines(new.get(name)), "recorded", "now", lineterm="", n=1)
            )


def _lines(answers):
    if answers is None:
        return ["(no such row)"]
    lines = []
    for answer in answers:
        lines.append(f"exit code {answer['code']}")
        for stream in ("out", "err"):
            lines += [f"{stream}: {line}" for line in answer[stream].splitlines()]
        lines += [f"file {name}: {facts or 'gone'}" for name, facts in answer.get("files", {}).items()]
    return lines
