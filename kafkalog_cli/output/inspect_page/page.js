"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const COLORS = { kept: "#3b7dd8", clean: "#2a9d8f", dirty: "#e9a23b", uncleanable: "#9aa5b1", removed: "#d1495b" };
  const MEANINGS = {
    kept: "kept, or not known", clean: "clean part", dirty: "dirty part",
    uncleanable: "not cleanable yet", removed: "removed by retention now",
  };
  const HOLE = "#111111", OPEN = "#8e44ad", HORIZON = "#7a1f2b";
  const ROWS = 40, ROW_PX = 22, LABEL_PX = 190, BINS = 240;
  const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

  function sized(bytes) {
    let value = bytes, unit = 0;
    while (value >= 1024 && unit < UNITS.length - 1) { value /= 1024; unit += 1; }
    return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
  }
  const count = (number) => number.toLocaleString("en");
  const time = (ms) => (ms === null || Math.abs(ms) > 8.64e15 ? "-" : new Date(ms).toISOString());
  function element(tag, text, name) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  }

  const KEYS = {
    name: (one) => one.order,
    size: (one) => -one.size, holes: (one) => -one.hole_count, open: (one) => -one.open.length,
    dirty: (one) => (one.cleaning ? -one.cleaning.bytes : 1), removable: (one) => (one.retention ? -one.retention.bytes : 1),
  };
  data.partitions.forEach((one, at) => { one.order = at; });
  let first = 0, zoom = null, charts = [], chosen = [];

  function choose() {
    const wanted = byId("filter").value.toLowerCase(), key = KEYS[byId("order").value];
    chosen = data.partitions.filter((one) => one.name.toLowerCase().includes(wanted));
    chosen.sort((one, other) => key(one) - key(other) || one.order - other.order);
    first = 0;
    show();
  }

  function show() {
    const rows = chosen.slice(first, first + ROWS);
    const range = rows.length ? `${first + 1} to ${first + rows.length} of ${chosen.length}` : "no partition";
    byId("shown").textContent = range;
    byId("previous").disabled = first === 0;
    byId("next").disabled = first + ROWS >= chosen.length;
    charts.forEach((chart) => chart.destroy());
    charts = [];
    if (data.span && rows.length) charts = [bytesChart(rows), spansChart(rows)];
    table(rows);
    document.body.dataset.rows = rows.length;
    document.body.dataset.charts = charts.length;
  }

  // ---- charts

  function wholeSpan() {
    const pad = Math.max(1, (data.span[1] - data.span[0]) * 0.01);
    return [(data.span[0] - pad) / 1000, (data.span[1] + pad) / 1000];
  }
  const xScale = { time: true, range: (u, min, max) => (u.status === 0 ? zoom || wholeSpan() : [min, max]) };
  const tz = (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC");
  const onZoom = (u, key) => {
    if (key !== "x") return;
    const { min, max } = u.scales.x, at = zoom || wholeSpan();
    if (min === at[0] && max === at[1]) return;
    zoom = [min, max];
    charts.forEach((other) => { if (other !== u) other.setScale("x", { min, max }); });
  };
  const width = () => document.body.clientWidth - 56;

  function bytesChart(rows) {
    const [from, to] = data.span, bin = Math.max(1, Math.ceil((to - from + 1) / BINS));
    const sums = new Array(BINS).fill(0);
    for (const one of rows) {
      for (const [start, bytes] of one.over_time) {
        sums[Math.min(BINS - 1, Math.max(0, Math.floor((Math.max(start, from) - from) / bin)))] += bytes;
      }
    }
    const times = sums.map((_, at) => (from + (at + 0.5) * bin) / 1000);
    return new uPlot({
      width: width(), height: 170, tzDate: tz, legend: { show: false },
      cursor: { sync: { key: "time" }, y: false, drag: { x: true, y: false } },
      scales: { x: xScale, y: { range: (_u, _min, max) => [0, Math.max(1, max) * 1.05] } },
      series: [{}, { paths: uPlot.paths.bars({ size: [0.9, 60] }), fill: COLORS.kept, width: 0, points: { show: false } }],
      axes: [{}, { size: LABEL_PX, values: (_u, splits) => splits.map(sized) }],
      hooks: { setScale: [onZoom] },
    }, [times, sums], byId("bytes"));
  }

  function spansChart(rows) {
    const chart = new uPlot({
      width: width(), height: rows.length * ROW_PX + 70, tzDate: tz, legend: { show: false },
      cursor: { sync: { key: "time" }, y: false, points: { show: false }, drag: { x: true, y: false } },
      scales: { x: xScale, y: { dir: -1, range: [-0.5, rows.length - 0.5] } },
      series: [{}, { points: { show: false }, paths: () => null }],
      axes: [{}, {
        size: LABEL_PX, grid: { show: true }, splits: () => rows.map((_, at) => at),
        values: () => rows.map((one) => (one.name.length > 28 ? `${one.name.slice(0, 27)}…` : one.name)),
      }],
      hooks: { draw: [(u) => drawRows(u, rows)], setScale: [onZoom] },
    }, [data.span.map((ms) => ms / 1000), [0, 0]], byId("spans"));
    chart.over.addEventListener("mousemove", (event) => tip(chart, rows, event));
    chart.over.addEventListener("mouseleave", () => { byId("tip").hidden = true; });
    return chart;
  }

  function drawRows(u, rows) {
    const { ctx, bbox } = u, ratio = window.devicePixelRatio || 1;
    const x = (ms) => u.valToPos(ms / 1000, "x", true);
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    rows.forEach((one, at) => {
      const middle = u.valToPos(at, "y", true), half = 7 * ratio;
      for (const segment of one.segments) {
        const [from, to, , , , kind] = segment;
        if (from === null) continue;
        ctx.fillStyle = COLORS[kind];
        ctx.fillRect(x(from), middle - half, Math.max(2 * ratio, x(to) - x(from) - ratio), 2 * half);
      }
      for (const hole of one.holes) {
        const place = hole[2] === null ? hole[3] : hole[2];
        if (place === null) continue;
        ctx.fillStyle = HOLE;
        ctx.fillRect(x(place) - ratio, middle - half - 2 * ratio, 2 * ratio, 2 * half + 4 * ratio);
      }
      for (const open of one.open) {
        if (open[2] < 0) continue;
        ctx.fillStyle = OPEN;
        ctx.beginPath();
        ctx.moveTo(x(open[2]), middle + half);
        ctx.lineTo(x(open[2]) - 5 * ratio, middle + half + 6 * ratio);
        ctx.lineTo(x(open[2]) + 5 * ratio, middle + half + 6 * ratio);
        ctx.fill();
      }
      if (one.retention && one.retention.horizon !== null) {
        ctx.strokeStyle = HORIZON;
        ctx.lineWidth = 2 * ratio;
        ctx.setLineDash([3 * ratio, 3 * ratio]);
        ctx.beginPath();
        ctx.moveTo(x(one.retention.horizon), middle - 10 * ratio);
        ctx.lineTo(x(one.retention.horizon), middle + 10 * ratio);
        ctx.stroke();
        ctx.setLineDash([]);
      }
    });
    ctx.restore();
  }

  function tip(u, rows, event) {
    const box = byId("tip"), row = rows[Math.round(u.posToVal(event.offsetY, "y"))];
    const ms = u.posToVal(event.offsetX, "x") * 1000;
    if (!row) { box.hidden = true; return; }
    const slack = ((u.scales.x.max - u.scales.x.min) * 1000) / 300;
    const lines = [row.name];
    for (const [from, to, bytes, base, next, kind, joined] of row.segments) {
      if (from === null || ms < from - slack || ms > to + slack || lines.length > 6) continue;
      const what = joined > 1 ? `${joined} segments` : "segment";
      lines.push(`${what}, offsets ${base} to ${next - 1}, ${sized(bytes)}, ${MEANINGS[kind]}\n${time(from)} to ${time(to)}`);
    }
    for (const [from, to, before] of row.holes) {
      if (before !== null && Math.abs(before - ms) < slack) lines.push(`hole: offsets ${from} to ${to}`);
    }
    for (const [producer, offset, last] of row.open) {
      if (Math.abs(last - ms) < slack) lines.push(`open transaction of producer ${producer} from offset ${offset} on`);
    }
    box.textContent = lines.join("\n");
    box.hidden = false;
    box.style.left = `${Math.min(event.clientX + 14, window.innerWidth - 430)}px`;
    box.style.top = `${event.clientY + 14}px`;
  }

  // ---- table

  const COLUMNS = [
    ["Partition", (one) => one.name, "name"],
    ["Size", (one) => sized(one.size), "number"],
    ["Segments", (one) => count(one.segment_count), "number"],
    ["Offsets", (one) => (one.start === null || one.end === null ? "-" : `${one.start} to ${one.end - 1}`), "number"],
    ["Holes", (one) => count(one.hole_count), "number"],
    ["Open", (one) => (one.searched ? count(one.open.length) : "-"), "number"],
    ["Dirty", (one) => (one.cleaning ? `${sized(one.cleaning.bytes)}, ${Math.round(100 * one.cleaning.ratio)} %` : "-"), "number"],
    ["Removable", (one) => (one.retention ? sized(one.retention.bytes) : "-"), "number"],
    ["Notes", (one) => one.notes.join("\n"), "notes"],
  ];
  function table(rows) {
    const head = element("tr"), body = byId("table").tBodies[0];
    for (const [title, , kind] of COLUMNS) head.append(element("th", title, kind === "number" ? kind : ""));
    byId("table").tHead.replaceChildren(head);
    body.replaceChildren(...rows.map((one) => {
      const row = element("tr");
      for (const [, text, kind] of COLUMNS) row.append(element("td", text(one), kind));
      return row;
    }));
  }

  // ---- the rest of the page

  function total(title, text) {
    const box = element("div");
    box.append(element("dt", title), element("dd", text));
    byId("totals").append(box);
  }
  const sum = (of) => data.partitions.reduce((so_far, one) => so_far + of(one), 0);
  byId("when").textContent = `as of ${time(data.now_ms)}; times are UTC`;
  total("partitions", count(data.partitions.length));
  total("size", sized(sum((one) => one.size)));
  total("segments", count(sum((one) => one.segment_count)));
  total("holes", count(sum((one) => one.hole_count)));
  total("open transactions", count(sum((one) => one.open.length)));
  total("dirty", sized(sum((one) => (one.cleaning ? one.cleaning.bytes : 0))));
  total("removable", sized(sum((one) => (one.retention ? one.retention.bytes : 0))));
  const marks = Object.keys(COLORS).map((kind) => [COLORS[kind], MEANINGS[kind]]);
  marks.push([HOLE, "hole"], [OPEN, "open transaction, at its last batch"], [HORIZON, "dashed: retention horizon"]);
  for (const [color, text] of marks) {
    const mark = element("span"), box = element("i");
    box.style.background = color;
    mark.append(box, text);
    byId("legend").append(mark);
  }
  byId("filter").addEventListener("input", choose);
  byId("order").addEventListener("change", choose);
  byId("previous").addEventListener("click", () => { first = Math.max(0, first - ROWS); show(); });
  byId("next").addEventListener("click", () => { first += ROWS; show(); });
  byId("all").addEventListener("click", () => { zoom = null; show(); });
  window.addEventListener("resize", () => charts.forEach((chart) => chart.setSize({ width: width(), height: chart.height })));
  choose();
})();
