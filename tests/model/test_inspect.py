"""`inspect` against a decoder of everything, and against the plans of retain and compact; its page in a real browser."""

import html
import io
import json
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import kafkalog_cli as kl
from tests.model.test_find import some_logs
from tests.support.commands import Terminal, kafkalog
from tests.support.logs import BASE_TIME_MS as TIME_MS
from tests.support.logs import R, batch_v2, write_segment
from tests.support.naive_reader import read_batches
from tests.support.product import Environment, lower_limit, run

HORIZON, LOG_APPEND_TIME = 0x40, 0x08
CASES = ["v2-lz4/data", "v2-logappend/data", "v2-mixed/data", "txn/data", "upgraded/data", "v0/data", "v1/data",
         "compact-tx/after", "compact-old/after", "compact-producers/after", "internal/data"]  # fmt: skip
COMPACTED = ("--config", "cleanup.policy=compact")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def inspected(path, *options):
    """(objects by the names of directories, summary, exit code)."""
    out, err = io.BytesIO(), io.BytesIO()
    environment = Environment(out, err)
    code = run(["inspect", str(path), "--format", "json", *options], environment)
    *found, summary = [json.loads(line) for line in out.getvalue().splitlines()]
    assert summary["exit_code"] == code
    return {one["path"].rpartition("/")[2]: one for one in found}, summary, code


def counted(segments, log_start=0):
    """What a twin finds in the bytes of (base offset, bytes) of a log's segments."""
    spans, holes, over_time, following = [], [], {}, None
    for base, data in segments:
        batches, firsts, lasts = list(read_batches(data)), [], []
        following = base if following is None else following
        for batch in batches:
            is_plain = batch.magic >= 2 and not batch.attributes & (HORIZON | LOG_APPEND_TIME)
            firsts.append(batch.base_timestamp if is_plain else batch.max_timestamp)
            lasts.append(batch.max_timestamp)
            if batch.max_timestamp >= 0:
                second = batch.max_timestamp // 1000
                over_time[second] = over_time.get(second, 0) + batch.size_bytes
            if batch.base_offset > following and batch.base_offset - 1 >= log_start:
                holes.append((max(following, log_start), batch.base_offset - 1))
            following = batch.last_offset + 1
        known = [[time for time in times if time >= 0] for times in (firsts, lasts)]
        spans.append((base, len(data), len(batches), min(known[0], default=None), max(known[1], default=None)))
    return spans, holes, over_time


def spans_of(one):
    names = ("base_offset", "size_bytes", "batches", "first_timestamp_ms", "last_timestamp_ms")
    return [tuple(segment[name] for name in names) for segment in one["segments"]]


def check(one, segments):
    spans, holes, over_time = counted(segments, one["log_start_offset"])
    assert spans_of(one) == spans
    assert (one["hole_count"], one["hole_offsets"]) == (len(holes), sum(last - first + 1 for first, last in holes))
    shown = [(hole["first_offset"], hole["last_offset"]) for hole in one["holes"]]
    assert set(shown) <= set(holes)
    assert len(shown) == min(20, len(holes))
    assert shown == sorted(shown)
    period_ms, periods = one["period_ms"], {}
    for second, size in over_time.items():
        start = second * 1000 // period_ms * period_ms
        periods[start] = periods.get(start, 0) + size
    assert {period["start_ms"]: period["bytes"] for period in one["over_time"]} == periods
    return len(holes)


@pytest.mark.parametrize("case", CASES)
def test_inspect_of_the_corpus_counts_what_a_decoder_of_everything_counts(corpus, case):
    found, summary, code = inspected(corpus / case)
    assert code == 0
    for name, one in found.items():
        logs = sorted((corpus / case / name).glob("*.log"))
        check(one, [(int(log.stem), log.read_bytes()) for log in logs])
        files = [file for file in (corpus / case / name).iterdir() if file.is_file()]
        assert one["size_bytes"] == sum(file.stat().st_size for file in files)
    assert summary["segments"] == sum(len(one["segments"]) for one in found.values())


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(12))
def test_inspect_of_random_logs_counts_what_a_decoder_of_everything_counts(seed, tmp_path, evidence):
    """With holes between segments and in them."""
    generator, holes, logs_tried = random.Random(seed), 0, 0
    for number in range(6):
        files, logs = some_logs(generator, str(tmp_path / str(number)))
        for path, segments in logs.items():
            start = 10_000
            offsets = sorted(generator.sample(range(start, start + 20), 9))
            data = b"".join(batch_v2([R(offset, TIME_MS + offset)]) for offset in offsets)
            if generator.random() < 0.7:
                files[f"{path}/{start:020d}.log"] = data
                segments.append(data)
        for name, data in files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(data)
        found, _, _ = inspected(tmp_path / str(number))
        for path in logs:
            stored = sorted(name for name in files if name.startswith(f"{path}/"))
            bases = [(int(name.rpartition("/")[2][:20]), files[name]) for name in stored]
            holes += check(found[path.rpartition("/")[2]], bases)
            logs_tried += 1
    assert holes > 10
    evidence("R60", logs_tried, 12)


def test_offsets_below_the_log_start_are_in_no_hole(tmp_path):
    log = tmp_path / "orders-0"
    log.mkdir()
    for base, offset in ((0, 0), (10, 10), (40, 45)):
        (log / f"{base:020d}.log").write_bytes(batch_v2([R(offset, TIME_MS)]))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 20\n")
    (one,) = inspected(tmp_path)[0].values()
    assert [(hole["first_offset"], hole["last_offset"]) for hole in one["holes"]] == [(20, 44)]


def test_the_part_before_damage_is_shown(tmp_path):
    log = tmp_path / "orders-0"
    log.mkdir()
    data = b"".join(batch_v2([R(at, TIME_MS)]) for at in range(4))
    (log / f"{0:020d}.log").write_bytes(data[:-5])
    found, _, code = inspected(tmp_path)
    assert code == 3
    assert found["orders-0"]["segments"][0]["batches"] == 3
    (log / f"{0:020d}.log").write_bytes(data[: len(data) // 4] + bytes(40) + data[len(data) // 4 + 40 :])
    found, _, code = inspected(tmp_path)
    assert code == 4
    assert found["orders-0"]["segments"][0]["batches"] == 1


# ---- against the plans of the verbs


def test_retention_as_retain_plans_it(corpus):
    place, now = corpus / "retention" / "before", 1_795_237_200_000
    settings = {"cleanup.policy": "delete", "retention.ms": 172_800_000}
    options = [f"--config={name}={value}" for name, value in settings.items()]
    found, summary, _ = inspected(place, *options, "--now", str(now))
    plans = kl.retain(place, config=settings, now=now, dry_run=True, single_replica=True, explain=True)
    removed = 0
    for plan in (changed.plan for changed in plans.results):
        one = found[plan.path.rpartition("/")[2]]
        if plan.is_refused or one["retention"] is None:
            continue
        gone = {segment.base_offset: segment.limit.value for segment in plan.removed}
        assert {s["base_offset"]: s["removed_by"] for s in one["segments"] if s["removed_by"]} == gone
        assert one["retention"]["removable_bytes"] == plan.removed_bytes
        assert one["retention"]["horizon_ms"] == now - 172_800_000
        kept = next((fate for fate in plan.fates if fate.goes is None), None)
        assert one["retention"]["next_due_ms"] == (kept and kept.due_ms)
        removed += len(gone)
    assert removed > 5
    assert summary["removable_bytes"] > 0


def test_clean_and_dirty_as_compact_plans_it(corpus):
    place = corpus / "compact-plain" / "before"
    options = (*COMPACTED, "--now", "2026-12-01")
    found, _, _ = inspected(place, *options)
    code, out, _ = kafkalog("compact", place, *options, "--dry-run", "--format", "json")
    plans = [json.loads(line) for line in out.splitlines()][:-1]
    assert plans
    for plan in plans:
        one = found[plan["path"].rpartition("/")[2]]
        cleaning = one["cleaning"]
        assert (cleaning["clean_bytes"], cleaning["cleanable_bytes"]) == (plan["clean_bytes"], plan["dirty_bytes"])
        bounds = (cleaning["first_dirty"], cleaning["first_uncleanable"])
        for segment in one["segments"]:
            part = "uncleanable" if segment["base_offset"] >= bounds[1] else "dirty"
            assert segment["part"] == ("clean" if segment["next_offset"] <= bounds[0] else part)


def test_open_transactions_as_transactions_finds_them(corpus):
    found, summary, _ = inspected(corpus / "txn" / "data")
    code, out, _ = kafkalog("transactions", corpus / "txn" / "data", "--format", "json")
    lines = [json.loads(line) for line in out.splitlines()]
    wanted = {(one["topic"], one["partition"], one["producer_id"], one["start_offset"])
              for one in lines if one["schema"] == "kafkalog.open-transaction/1"}  # fmt: skip
    assert wanted == {
        (one["topic"], one["partition"], open_one["producer_id"], open_one["first_offset"])
        for one in found.values() for open_one in one["open_transactions"]
    }  # fmt: skip
    assert summary["open_transactions"] == len(wanted) > 0


def test_inspect_of_the_library_gives_the_numbers_of_the_command(corpus):
    place = corpus / "txn" / "data"
    found, _, code = inspected(place)
    result = kl.open(place).inspect()
    assert int(result.exit_code) == code
    by_name = {one.partition.name: one for one in result.results}
    assert {name: [*map(tuple, one.holes)] for name, one in by_name.items()} == {
        name: [tuple(hole.values()) for hole in one["holes"]] for name, one in found.items()
    }


# ---- text


@pytest.mark.parametrize("case", ["txn/data", "compact-tx/after", "retention/before"])
@pytest.mark.parametrize("columns", [80, 120])
def test_text_fits_a_terminal(corpus, case, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    out = Terminal()
    run(["inspect", str(corpus / case)], Environment(out, io.BytesIO()))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue().decode()).splitlines()
    assert max(map(len, lines)) <= columns
    assert "OVER TIME" in lines[0]
    assert any("█" in line for line in lines)


def test_a_single_partition_has_its_segments(corpus):
    place = corpus / "retention" / "before" / "ret-time-0"
    _, out, _ = kafkalog("inspect", place, "--config", "cleanup.policy=delete", "--config", "retention.ms=1000")
    rows = [line for line in out.splitlines() if "━" in line]
    assert len(rows) == len([*place.glob("*.log")])
    places = [(row.index("━"), row.rindex("━")) for row in rows]
    assert places == sorted(places)
    assert "retention removes 4 segments now" in out


# ---- the page


def data_of(page):
    text = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S).group(1)
    return json.loads(text)


def test_the_inspect_page_loads_nothing_from_elsewhere(corpus, tmp_path):
    page = tmp_path / "page.html"
    code, out, _ = kafkalog("inspect", corpus / "txn" / "data", "--html", page)
    assert (code, "OVER TIME" in out) == (0, True)
    text = page.read_text()
    assert not re.search(r"<(link|img|iframe|script[^>]*\ssrc)", text)
    assert {one["name"] for one in data_of(text)["partitions"]} == {*inspected(corpus / "txn" / "data")[0]}
    assert kafkalog("inspect", corpus / "txn" / "data", "--html", corpus / "txn" / "data")[0] == 14


def test_a_hostile_name_stays_text(tmp_path):
    log = tmp_path / "</script><script>alert(1)</script>-0"
    log = tmp_path / log.name.replace("/", "")
    log.mkdir()
    (log / f"{0:020d}.log").write_bytes(batch_v2([R(1, TIME_MS)]))
    page = tmp_path / "page.html"
    kafkalog("inspect", log, "--html", page)
    assert "<script>alert" not in page.read_text()


def test_many_segments_are_joined(tmp_path, monkeypatch):
    log = tmp_path / "a-0"
    log.mkdir()
    for at in range(50):
        (log / f"{at:020d}.log").write_bytes(batch_v2([R(at, TIME_MS)]))
    lower_limit(monkeypatch, "segments on a page of inspect", 10)
    assert kafkalog("inspect", log, "--html", tmp_path / "page.html").code == 3
    (one,) = data_of((tmp_path / "page.html").read_text())["partitions"]
    assert [(part[3], part[4], part[6]) for part in one["segments"]] == [(at, at + 5, 5) for at in range(0, 50, 5)]


def browse(page, *options):
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *options]
    done = subprocess.run(
        [*command, f"--user-data-dir={page.parent / 'profile'}", "--virtual-time-budget=3000", page.as_uri()],
        capture_output=True, timeout=600, check=True,
    )  # fmt: skip
    return done.stdout.decode()


@pytest.mark.full
@pytest.mark.skipif(BROWSER is None, reason="no browser is here: apt-get install chromium")
def test_the_page_of_inspect_draws_its_table_and_charts_in_a_real_browser(corpus, tmp_path):
    """Its script runs, the table has each partition, and the charts are drawn."""
    page, place = tmp_path / "page.html", tmp_path / "logs"
    shutil.copytree(corpus / "compact-plain2" / "before", place)
    copy = next(iter(sorted(place.glob("*-0"))))
    hole = sorted(copy.glob("*.log"))[1]
    hole.unlink()
    kafkalog("inspect", place, *COMPACTED, "--now", "2026-12-01", "--html", page)
    wanted = data_of(page.read_text())["partitions"]
    document = browse(page, "--dump-dom")
    assert f'data-rows="{len(wanted)}"' in document
    assert 'data-charts="2"' in document
    assert document.count("<canvas") == 2
    cells = re.findall(r'<td class="name">(.*?)</td>', document)
    assert cells == [one["name"] for one in wanted]


MOUSE = """
const over = () => document.querySelectorAll(".u-over")[1], box = document.getElementById("tip");
const at = (type, x, target) => {
  const { left, top, width, height } = over().getBoundingClientRect();
  const place = { clientX: left + x * width, clientY: top + height / (2 * rows), bubbles: true, button: 0, movementX: 9 };
  (target || over()).dispatchEvent(new MouseEvent(type, place));
};
const rows = Number(document.body.dataset.rows), seen = [];
const look = (x) => { at("mousemove", x); seen.push(box.hidden ? null : box.textContent); };
const wait = () => new Promise((done) => setTimeout(done, 50));
(async () => {
  await wait();
  look(FIRST), look(SECOND);
  at("mousemove", 0.001), at("mousedown", 0.001), at("mousemove", ZOOMED);
  await wait();
  at("mouseup", ZOOMED, document);
  await wait();
  look(FIRST / ZOOMED), look(0.5);
  document.getElementById("all").click();
  await wait();
  look(FIRST), look(SECOND);
  over().dispatchEvent(new MouseEvent("mouseleave"));
  seen.push(box.hidden);
  document.body.dataset.seen = JSON.stringify(seen);
})();
"""


@pytest.mark.skipif(BROWSER is None, reason="no browser is here: apt-get install chromium")
def test_a_mouse_shows_segments_and_zooms(tmp_path):
    page, folder = tmp_path / "page.html", tmp_path / "logs" / "orders-0"
    folder.mkdir(parents=True)
    for base in range(0, 40, 10):
        records = [R(offset, TIME_MS + 1_000_000 * offset, b"k", b"v") for offset in range(base, base + 10)]
        write_segment(folder, base, [(batch_v2(records), base + 9, records[-1].timestamp)])
    kafkalog("inspect", folder.parent, "--html", page)
    found = data_of(page.read_text())
    row = found["partitions"][0]
    first, second = row["segments"][0], row["segments"][2]
    start, end = found["span"]
    pad = max(1, (end - start) * 0.01)

    def place(segment):
        """The middle of a segment as a part of the time axis."""
        return ((segment[0] + segment[1]) / 2 - start + pad) / (end - start + 2 * pad)

    def said(segment):
        return f"offsets {segment[3]} to {segment[4] - 1}, "

    zoomed = place(first) * 1.5
    script = (
        MOUSE.replace("FIRST", f"{place(first)}").replace("SECOND", f"{place(second)}").replace("ZOOMED", f"{zoomed}")
    )
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    page.write_text(text.replace("</body>", f"<script>{script}</script></body>"))
    document = browse(page, "--dump-dom")
    seen = json.loads(html.unescape(re.search(r'data-seen="([^"]*)"', document)[1]))
    assert all(one.startswith(row["name"]) for one in seen[:-1])
    assert [said(first) in one for one in seen[:-1]] == [True, False, True, True, True, False], seen
    assert [said(second) in one for one in seen[:-1]] == [False, True, False, False, False, True], seen
    assert seen[-1] is True
