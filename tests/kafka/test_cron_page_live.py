"""The commands of docs/cron.md and docs/make-room.md, as they are printed, on the log directories of a real broker with stock settings.

Only the page's directories are substituted: `put_in_place` states by which.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.kafka.broker import STOCK, Client, broker
from tests.kafka.recovering import ENVIRONMENT

pytestmark = [pytest.mark.xdist_group("broker"), pytest.mark.full]

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "make-room.md").read_text() + (DOCS / "cron.md").read_text()
DAY_MS = 86_400_000
DAYS = 40
"""A record per day: with stock settings a segment holds a week of them, and a week of them stays."""
PARTITIONS = 4
RUNNING = 11
NO_ROOM = 13
WAITS = ["--override", "log.initial.task.delay.ms=3600000"]
"""The broker leaves the old segments to us, however slow its host is."""


def blocks(kind):
    return "\n".join(re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def with_word(lines, word):
    found = [line for line in lines if word in line.split()]
    assert found, f"the pages have no command with {word}"
    return found


SHELL = blocks("sh").splitlines()
CRON = [line.split(None, 6)[6] for line in blocks("cron").splitlines() if line[:1] not in ("", "#")]
UNIT = dict(line.split("=", 1) for line in blocks("ini").splitlines() if "=" in line and not line.startswith("#"))
SUCCESS = {0, *map(int, UNIT["SuccessExitStatus"].split())}
(DRY_RUN,) = with_word(SHELL, "--explain")
FREEING_PLAN, FREEING = with_word(SHELL, "--free-bytes")
(RETAINING,), (PURGING,), (VERIFYING,) = (with_word(CRON, word) for word in ("retain", "purge", "verify"))
SERVICE = UNIT["ExecStart"]
WITHOUT_IF_OFFLINE = RETAINING.replace(" --if-offline", "")


class Place(NamedTuple):
    """The two log directories of a broker that has stopped, or a copy of them, and what lies beside them."""

    folder: Path

    @property
    def disks(self):
        return [self.folder / "data", self.folder / "disk2"]

    def put_in_place(self, text):
        """The page's text with the directories that are here, and `kafkalog` as it is installed here."""
        for page, here in {
            "/usr/bin/kafkalog": "kafkalog",
            "/etc/kafka/server.properties": self.folder / "server.properties",
            "/var/lib/kafka/data": self.disks[0],
            "/disk1/kafka": self.disks[0],
            "/disk2/kafka": self.disks[1],
            "/var/lib/node_exporter/textfile": self.folder / "textfile",
        }.items():
            text = text.replace(page, str(here))
        assert not re.search(r"(?<!\S)/(var|etc|usr|disk)", text), f"a directory is not substituted in: {text}"
        return text

    def do(self, command):
        """A line of the page as cron and people run it: by a shell, with `kafkalog` on the path."""
        (self.folder / "textfile").mkdir(exist_ok=True)
        program = self.folder / "bin" / "kafkalog"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafkalog_cli "$@"\n')
        program.chmod(0o755)
        environment = {**ENVIRONMENT, "PATH": f"{program.parent}:{os.environ['PATH']}"}
        command = ["sh", "-c", self.put_in_place(command)]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    def files(self, pattern="*"):
        """Path below the folder to content, of all files in the partition directories that fit."""
        found = [path for disk in self.disks for path in disk.glob(f"{pattern}-*/**/*") if path.is_file()]
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in found}

    def protected(self):
        """What nothing on the page may change: compacted topics, internal topics, the metadata log."""
        found = {**self.files("compacted"), **self.files("__*")}
        return {name: data for name, data in found.items() if "/.kafkalog/" not in name}

    def ordinary(self):
        """The base offsets of the segments of each partition of the topic with Kafka's own settings, on the first disk."""
        logs = sorted(self.disks[0].glob("ordinary-*/*.log"))
        assert logs
        return {
            path.parent.name: [int(log.stem) for log in logs if log.parent == path.parent]
            for path in self.disks[0].glob("ordinary-*/partition.metadata")
        }


class Stock(NamedTuple):
    place: Place
    beside: dict
    """Command to what it did beside the running broker."""
    ordinary_before: dict


@pytest.fixture(scope="module")
def stock(real_kafka, tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("stock"))
    class_path = real_kafka.broker_class_path
    with broker(place.folder, class_path, usual=STOCK, more_data=place.disks[1:], overrides=WAITS) as one:
        one.start()
        fill(one, class_path)
        beside = {line: place.do(line) for line in (RETAINING, PURGING, SERVICE, FREEING, WITHOUT_IF_OFFLINE)}
        one.stop()
    return Stock(place, beside, place.ordinary())


def fill(one, class_path):
    first_ms = int(time.time() * 1000) - DAYS * DAY_MS
    times = {"from": first_ms, "step": DAY_MS}
    with Client(one.address, class_path) as client:
        for topic, settings in (("ordinary", {}), ("compacted", {"cleanup.policy": "compact"})):
            client.do("create", topic, partitions=PARTITIONS, **settings)
            for at in range(PARTITIONS):
                client.do("produce", topic, count=DAYS, per=1, seed=at, partition=at, **times)
        client.do("consumed-group", "ordinary", "some-group")  # the internal topic is not empty


@pytest.fixture
def place(stock, tmp_path):
    """A copy that a test may change."""
    for path in stock.place.folder.iterdir():
        if path.name in ("data", "disk2"):
            shutil.copytree(path, tmp_path / path.name)
    properties = (stock.place.folder / "server.properties").read_text()
    (tmp_path / "server.properties").write_text(properties)
    return Place(tmp_path)


def test_beside_the_running_broker_timers_are_silent_and_no_writer_changes_anything(stock):
    for line, done in stock.beside.items():
        if "--if-offline" in line:
            assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), (line, done)
        else:
            assert done.returncode == RUNNING, (line, done)
            assert re.fullmatch(r"(\d+ partitions: 0 changed, (\d+ unchanged, )?\d+ failed, .*\n)?", done.stdout), done
            assert "broker" in done.stderr, line
    assert [done.returncode for done in stock.beside.values()].count(RUNNING) == 2
    assert stock.beside[SERVICE].returncode in SUCCESS
    assert set(map(len, stock.ordinary_before.values())) == {5}


def test_the_dry_run_of_the_cron_page_changes_nothing_and_lists_each_segment(place):
    before = place.files()
    done = place.do(DRY_RUN)
    assert done.returncode == 0, done
    assert place.files() == before
    assert "skipped: no source" not in done.stderr
    segments = [path for path in place.disks[0].glob("*/*.log") if path.parent.name != "__cluster_metadata-0"]
    assert len(re.findall(r"^  \d+ to \d+ .*  (?:kept|removed|due)", done.stdout, re.MULTILINE)) == len(segments)


STOCK_TEXT = "as the distribution has it"
SHORTEST = "with Kafka's own defaults only"


@pytest.mark.parametrize("line", [RETAINING, SERVICE], ids=["cron", "systemd"])
@pytest.mark.parametrize("properties", [STOCK_TEXT, SHORTEST])
def test_retention_removes_the_weeks_of_ordinary_topics_and_nothing_else(stock, place, line, properties):
    if properties == SHORTEST:  # a setting that nobody overrode is Kafka's default
        path = place.folder / "server.properties"
        kept = [each for each in path.read_text().splitlines(keepends=True) if not re.match(r"log\.(?!dirs)", each)]
        path.write_text("".join(kept))
    assert Path(place.put_in_place(UNIT["ConditionPathExists"])).exists()
    protected = place.protected()
    done = place.do(line)
    assert (done.returncode, done.stderr) == (0, ""), done
    left = place.ordinary()
    assert set(left) == set(stock.ordinary_before)
    assert left == {name: offsets[-1:] for name, offsets in stock.ordinary_before.items()}
    assert sorted(Path(each.split(":")[0]).name for each in done.stdout.splitlines()) == sorted(left)
    assert place.protected() == protected
    metrics = (place.folder / "textfile" / "kafkalog.prom").read_text()
    assert 'kafkalog_last_run_exit_code{command="retain"} 0\n' in metrics
    assert f'kafkalog_last_run_changed{{command="retain"}} {len(left)}\n' in metrics
    for again in (line, PURGING):
        done = place.do(again)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), again
    assert place.protected() == protected


def test_a_full_disk_loses_no_record_of_compacted_topics(stock, place):
    free, wanted = shutil.disk_usage(place.folder).free, int(re.search(r"--free-bytes (\d+)GiB", FREEING)[1]) << 30
    code = 0 if free >= wanted else NO_ROOM
    protected, before = place.protected(), place.files()
    assert place.do(FREEING_PLAN).returncode == code
    assert place.files() == before
    assert place.do(FREEING).returncode == code
    # The same with more bytes than any disk has: all that may go does.
    done = place.do(re.sub(r"--free-bytes \S+", "--free-bytes 900000TiB", FREEING))
    assert done.returncode == NO_ROOM, done
    assert place.ordinary() == {name: offsets[-1:] for name, offsets in stock.ordinary_before.items()}
    assert place.protected() == protected


def test_verify_prints_nothing_about_sound_log_directories(place):
    before = place.files()
    done = place.do(VERIFYING)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done
    assert place.files() == before
