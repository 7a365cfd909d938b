"use strict";

// Every name is one of /status.json; docs/page.md says what it is.

const byId = (id) => document.getElementById(id);
const NONE = "-";

/** Writes a text where it has changed. */
function say(id, text) {
  const node = byId(id);
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const digits = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const whole = (number) => (isNumber(number) ? digits.format(number) : NONE);
const percent = (share) => (isNumber(share) ? (share * 100).toFixed(1) + "%" : NONE);
const counted = (count, name) => whole(count) + " " + name + (count === 1 ? "" : "s");

/** A number of bytes with its unit. */
function bytes(count) {
  if (!isNumber(count)) {
    return NONE;
  }
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (unit + 1 < units.length && count >= (unit === 0 ? 10000 : 1000)) {
    count /= 1000;
    unit += 1;
  }
  return (unit === 0 ? whole(count) : count.toFixed(1)) + " " + units[unit];
}

/** A rate in three digits, or as a whole number. */
function rate(number) {
  if (!isNumber(number)) {
    return NONE;
  }
  return number < 10 && number > 0 ? number.toFixed(1) : whole(number);
}

/** Seconds as a person reads them. */
function duration(seconds) {
  if (!isNumber(seconds)) {
    return NONE;
  }
  const all = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
  const two = (number) => String(number).padStart(2, "0");
  if (hours >= 48) {
    return whole(hours / 24) + " days";
  }
  if (hours > 0) {
    return hours + " h " + two(minutes) + " min";
  }
  return minutes > 0 ? minutes + " min " + two(rest) + " s" : rest + " s";
}

/** A moment in the time of this machine; the day only where it is another one. */
function moment(seconds, isShort) {
  if (!isNumber(seconds)) {
    return NONE;
  }
  const date = new Date(seconds * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  if (isShort && date.toDateString() === new Date().toDateString()) {
    return time;
  }
  return [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-") + " " + time;
}

/** The end of a hash: its beginning is zeros. */
const hashEnd = (hash) => "\u2026" + hash.slice(-12);

// The state. It alone is announced.

const STATES = {
  starting: ["Starting", "wait"],
  waiting_for_lock: ["Waiting: another process has the data directory", "wait"],
  reading_headers: ["Reading headers", "work"],
  connecting: ["Connecting blocks", "work"],
  verifying: ["Verifying blocks", "work"],
  reading_coins: ["Reading coins", "work"],
  at_the_tip: ["At the tip", "good"],
  stopping: ["Stopping", "wait"],
};

function showState(text, kind) {
  say("state", text);
  byId("state").dataset.kind = kind;
}

// Tables.

/** Makes the rows of a table those of these cells; a cell is a text, or {text, kind, title, share}. */
function fill(id, rows) {
  const body = byId(id);
  while (body.rows.length > rows.length) {
    body.deleteRow(-1);
  }
  rows.forEach((cells, at) => {
    const row = body.rows[at] || body.insertRow();
    cells.forEach((cell, column) => {
      const isNew = column >= row.cells.length;
      if (isNew && column === 0) {
        const head = document.createElement("th");
        head.scope = "row";
        row.append(head);
      } else if (isNew) {
        row.insertCell();
      }
      const node = row.cells[column];
      const { text, kind, title, share } = typeof cell === "string" ? { text: cell } : cell;
      if (kind) {
        node.className = kind;
      }
      if (title) {
        node.title = title;
      }
      if (share !== undefined) {
        const bar = node.firstElementChild || node.appendChild(document.createElement("i"));
        bar.style.setProperty("--share", (Math.min(Math.max(share, 0), 1) * 100).toFixed(1) + "%");
      } else if (node.textContent !== text) {
        node.textContent = text;
      }
    });
  });
}

function fillWarnings(warnings) {
  const list = byId("warnings_rows");
  const items = warnings.map((warning) => {
    const item = document.createElement("li");
    for (const [tag, name, text] of [
      ["time", "", moment(warning.time, true)],
      ["span", "event", warning.event],
      ["span", "message", warning.message],
    ]) {
      const part = document.createElement(tag);
      part.className = name;
      part.textContent = text;
      item.append(part);
    }
    return item;
  });
  list.replaceChildren(...items);
}

// The figures.

function showRow(id, isShown) {
  byId(id).closest("div").hidden = !isShown;
}

function showBar(id, share) {
  byId(id).style.setProperty("--share", (Math.min(Math.max(share || 0, 0), 1) * 100).toFixed(1) + "%");
}

function showFacts(status) {
  say("command", status.command);
  say("network", status.network || NONE);
  say("started", moment(status.started, false));
  say("time", moment(status.time, true));
  say("data", status.data || NONE);
  showRow("data", status.data !== null);
  say("version", status.program.version + " (commit " + status.program.commit + ", scripts by Bitcoin Core " + status.program.kernel + ")");
  const at = isNumber(status.height) ? "height " + whole(status.height) + ", " : "";
  document.title = at + status.command + " - Blockmill";
}

function showChain(status) {
  say("height", whole(status.height));
  say("best_height", whole(status.best_height));
  say("share", percent(status.share));
  byId("progress").value = status.share || 0;
  say("remaining", duration(status.remaining_seconds));
  showRow("remaining", status.state !== "at_the_tip");
  say("doing", status.doing);
  // Words for what the figures above do not say already.
  showRow("doing", !["connecting", "verifying", "at_the_tip"].includes(status.state));
  // Its line is broken in the middle, if at all.
  say("tip_begin", (status.tip || "").slice(0, 32));
  say("tip_end", (status.tip || "").slice(32));
  showRow("tip", status.tip !== null);
  say("tip_time", moment(status.tip_time, false));
  showRow("tip_time", status.tip_time !== null);
  say("flushed_height", whole(status.flushed_height));
  showRow("flushed_height", status.flushed_height !== null);
  say("blocks", whole(status.blocks));
  say("transactions", whole(status.transactions));
  say("inputs", whole(status.inputs));
  say("bytes", bytes(status.bytes));
}

/** The order of a block's way. */
const STAGES = ["read", "decode", "fetch", "resolve", "check", "commit", "flush"];
const PART = { text: "", kind: "bar" };

function showWork(status) {
  const stages = STAGES.filter((name) => status.stages && status.stages[name]).map((name) => [name, status.stages[name]]);
  byId("stages").hidden = stages.length === 0;
  fill("stages_rows", stages.map(([name, stage]) => [
    name,
    isNumber(stage.busy_threads) ? stage.busy_threads.toFixed(2) : NONE,
    { ...PART, share: (stage.busy_threads || 0) / Math.max(status.threads, 1) },
    percent(stage.wait_share),
  ]));
  byId("threads").hidden = status.thread_groups.length === 0;
  say("validating", whole(status.threads));
  fill("threads_rows", status.thread_groups.map((group) => [
    group.name,
    whole(group.count),
    group.busy.toFixed(2),
    { ...PART, share: group.busy / group.count },
  ]));
}

function showMemory(status) {
  const cache = status.cache || {};
  const lookUps = (cache.hits || 0) + (cache.misses || 0);
  const limit = isNumber(status.cache_bytes_max) ? " of " + bytes(status.cache_bytes_max) : "";
  say("cache_bytes", bytes(status.cache_bytes) + limit);
  showBar("cache_bar", status.cache_bytes / status.cache_bytes_max);
  say("cache_coins", whole(status.cache_coins));
  say("cache_hits", lookUps > 0 ? percent(cache.hits / lookUps) + " of " + whole(lookUps) + " found" : NONE);
  say("store_bytes", bytes(status.store_bytes));
  say("directory_bytes", bytes(status.directory_bytes));
  say("disk_free_bytes", bytes(status.disk_free_bytes) + " of " + bytes(status.disk_bytes));
  showBar("disk_bar", status.disk_free_bytes / status.disk_bytes);
  const flush = status.flush || {};
  say("flushes", isNumber(status.flushes) ? whole(status.flushes) + " (" + counted(flush.changes, "change") + ")" : NONE);
  say("resident_bytes", bytes(status.process.resident_bytes));
  say("open_files", whole(status.process.open_files));
  say("cpu_seconds", duration(status.cpu_seconds));
  for (const id of ["cache_bytes", "cache_coins", "cache_hits", "flushes"]) {
    showRow(id, isNumber(status.flushes));
  }
  for (const id of ["store_bytes", "directory_bytes", "disk_free_bytes"]) {
    showRow(id, isNumber(status.directory_bytes));
  }
}

function showSignatures(status) {
  const signatures = status.signatures;
  const ways = { lanes: "in lanes, many at once", "one-by-one": "by libsecp256k1 alone" };
  const since = isNumber(signatures.from_height) ? " from height " + whole(signatures.from_height) + " on: " + signatures.reason : "";
  say("signatures_way", signatures.way ? ways[signatures.way] + since : ways["one-by-one"]);
  showRow("signatures_way", status.command !== "audit");
  say("signatures_lanes", whole(signatures.lanes));
  say("signatures_kernel", whole(signatures.kernel));
  for (const id of ["signatures_lanes", "signatures_kernel"]) {
    showRow(id, isNumber(signatures.lanes));
  }
  say("hashes", status.hashes.way);
}

let warningsShown = "";

function showEvents(status) {
  byId("last_blocks").hidden = status.command !== "follow" || status.last_blocks.length === 0;
  fill("last_blocks_rows", status.last_blocks.map((block) => [
    whole(block.height),
    { text: hashEnd(block.block_hash), kind: "hash", title: block.block_hash },
    { text: moment(block.block_time, true), kind: "wide" },
    whole(block.transactions),
    whole(block.inputs),
    { text: bytes(block.block_size), kind: "wide" },
  ]));
  byId("reorganisations").hidden = status.command !== "follow" && status.reorganisations_total === 0;
  say("reorganisations_total", whole(status.reorganisations_total));
  byId("reorganisations_none").hidden = status.reorganisations_total > 0;
  byId("reorganisations_rows").closest("table").hidden = status.reorganisations_total === 0;
  fill("reorganisations_rows", status.reorganisations.map((reorganisation) => [
    moment(reorganisation.time, true),
    whole(reorganisation.fork_height),
    whole(reorganisation.depth),
    { text: hashEnd(reorganisation.from), kind: "hash", title: reorganisation.from },
  ]));
  say("warnings_total", whole(status.warnings_total));
  byId("warnings_none").hidden = status.warnings_total > 0;
  const now = status.started + " " + status.warnings_total;
  if (now !== warningsShown) {
    warningsShown = now;
    fillWarnings(status.warnings);
  }
}

function show(status) {
  const [text, kind] = STATES[status.state] || [status.state, "work"];
  showState(text, kind);
  showFacts(status);
  showChain(status);
  say("blocks_per_second", rate(status.blocks_per_second));
  say("inputs_per_second", rate(status.inputs_per_second));
  showWork(status);
  showMemory(status);
  showSignatures(status);
  showEvents(status);
}

// The curves.

const SPAN = 600;
/** What a curve may show of it: the least that has all points, in seconds, and two labels. */
const SPANS = [
  [60, "1 min ago", "30 s"],
  [120, "2 min ago", "1 min"],
  [300, "5 min ago", "2 min 30 s"],
  [SPAN, "10 min ago", "5 min"],
];
const STEP = 2.5;
const LEFT = 52;
const TOP = 10;
const BOTTOM = 20;

/** Points, the oldest first: time, height, blocks per second, inputs per second, when the run began. */
let points = [];

/** The figures from which the next point is counted. */
let before = null;

/** Adds a point once a STEP has passed since the last one. What a hidden tab has missed is one point. */
function addPoint(status) {
  const now = [status.time, status.height || 0, status.blocks || 0, status.inputs || 0, status.started];
  if (before === null || before[4] !== now[4]) {
    before = now;
  }
  const seconds = now[0] - before[0];
  if (seconds < STEP) {
    return;
  }
  const rates = [2, 3].map((column) => Math.max(now[column] - before[column], 0) / seconds);
  points = points.concat([[now[0], now[1], ...rates, now[4]]]).filter((point) => point[0] >= now[0] - SPAN);
  before = now;
  drawAll();
}

/** The least of 1, 2 and 5, times a power of ten, that is no less. */
function niceAbove(number) {
  const power = 10 ** Math.floor(Math.log10(Math.max(number, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((nice) => nice >= number) || 10 * power;
}

function short(number) {
  const [divisor, unit] = number >= 1e6 ? [1e6, "M"] : number >= 1e4 ? [1e3, "k"] : [1, ""];
  return String(Math.round((number / divisor) * 100) / 100) + unit;
}

function drawn(svg, name, attributes, text) {
  const node = document.createElementNS("http:" + "//www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) {
    node.setAttribute(key, value);
  }
  if (text !== undefined) {
    node.textContent = text;
  }
  svg.append(node);
}

function draw(id, column) {
  const svg = byId(id);
  const [width, height] = [svg.clientWidth, svg.clientHeight];
  if (width === 0) {
    return;
  }
  svg.replaceChildren();
  svg.setAttribute("viewBox", "0 0 " + width + " " + height);
  const end = points.length > 0 ? points[points.length - 1][0] : 0;
  const most = niceAbove(Math.max(...points.map((point) => point[column]), 1));
  const first = points.length > 0 ? points[0][0] : 0;
  const [span, begin, middle] = SPANS.find((one) => one[0] >= end - first) || SPANS[SPANS.length - 1];
  const x = (time) => LEFT + (1 - (end - time) / span) * (width - LEFT - 1);
  const y = (value) => TOP + (1 - value / most) * (height - TOP - BOTTOM);
  for (const value of [0, most / 2, most]) {
    const at = Math.round(y(value));
    drawn(svg, "line", { class: "grid", x1: LEFT, x2: width, y1: at, y2: at });
    drawn(svg, "text", { x: LEFT - 8, y: at + 4, "text-anchor": "end" }, short(value));
  }
  for (const [ago, text, anchor] of [[span, begin, "start"], [span / 2, middle, "middle"], [0, "now", "end"]]) {
    drawn(svg, "text", { x: x(end - ago), y: height - 4, "text-anchor": anchor }, text);
  }
  // Each run has a line of its own.
  const parts = [];
  let run = null;
  for (const point of points) {
    if (point[4] !== run) {
      parts.push([]);
    }
    run = point[4];
    parts[parts.length - 1].push(x(point[0]).toFixed(1) + "," + y(point[column]).toFixed(1));
  }
  for (const part of parts) {
    const [left, right] = [part[0].split(",")[0], part[part.length - 1].split(",")[0]];
    drawn(svg, "path", { class: "area", d: "M" + left + "," + y(0) + "L" + part.join("L") + "L" + right + "," + y(0) + "Z" });
    drawn(svg, "path", { class: "line", d: "M" + part.join("L") });
  }
}

function drawAll() {
  draw("inputs_chart", 3);
  draw("blocks_chart", 2);
  if (!byId("rates").open) {
    return;
  }
  const rows = [];
  for (let end = points.length; end > 0; ) {
    const first = points.findIndex((point) => point[0] > points[end - 1][0] - 30);
    const part = points.slice(first, end);
    end = first;
    const mean = (column) => part.reduce((sum, point) => sum + point[column], 0) / part.length;
    const last = part[part.length - 1];
    rows.push([moment(last[0], true), whole(last[1]), rate(mean(2)), rate(mean(3))]);
  }
  fill("rates_rows", rows);
}

byId("rates").addEventListener("toggle", drawAll);
new ResizeObserver(drawAll).observe(byId("inputs_chart"));

// The figures are asked for once a second.

const PERIOD = 1000;
const SILENCE_MAX = 10000;

async function poll() {
  let status = null;
  try {
    const answer = await fetch("/status.json", { cache: "no-store", signal: AbortSignal.timeout(SILENCE_MAX) });
    status = answer.ok ? await answer.json() : null;
  } catch {
    // The command has ended, or cannot be reached.
  }
  setTimeout(poll, PERIOD);
  if (status === null) {
    showState(before === null ? "No answer, trying again" : "No answer: the command has ended or cannot be reached; trying again", "lost");
    return;
  }
  show(status);
  addPoint(status);
}

poll();
