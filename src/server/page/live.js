// SPDX-License-Identifier: Apache-2.0
// The live view: asks /inflight/stats for the steps since the last time and draws them. Steps come with their sequences
// as [id, decode, tokens, context, reused]; a sequence keeps one line of the picture while it is in the batch.
const PERIOD_MS = 250;
const LOCKED_PERIOD_MS = 3000;  // while the server wants another key
const STEPS_MAX = 160;
const RATE_WINDOW_S = 3;

const live = {last: 0, steps: [], lines: new Map(), latest: null, marks: [], paused: false};

// The lowest line that nobody has now.
function freeLine() {
  const taken = new Set(live.lines.values());
  for (let line = 0; ; ++line) if (!taken.has(line)) return line;
}

function addStep(step) {
  const present = new Set(step.sequences.map(([id]) => id));
  step.lost = step.preempted.map(([id, tokens]) => ({id, tokens, line: live.lines.get(id) ?? 0}));
  for (const id of [...live.lines.keys()]) if (!present.has(id)) live.lines.delete(id);
  step.cells = step.sequences.map(([id, decode, tokens, context, reused]) => {
    if (!live.lines.has(id)) live.lines.set(id, freeLine());
    return {id, decode, tokens, context, reused, line: live.lines.get(id)};
  });
  step.prefill = step.cells.reduce((sum, cell) => sum + (cell.decode ? 0 : cell.tokens), 0);
  step.decode = step.token_count - step.prefill;
  step.reused = step.cells.reduce((sum, cell) => sum + cell.reused, 0);
  live.steps.push(step);
  if (live.steps.length > STEPS_MAX) live.steps.shift();
}

function take(stats) {
  if (stats.last_step < live.last) {  // another server than before
    live.steps = [];
    live.marks = [];
  }
  stats.steps.forEach(addStep);
  live.last = stats.last_step;
  live.latest = stats;
  live.marks.push({time: stats.now_s, output: stats.tokens.output, computed: stats.tokens.computed});
  while (live.marks.length > 2 && live.marks[0].time < stats.now_s - RATE_WINDOW_S) live.marks.shift();
}

// ---- pictures

const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// A canvas of `height` CSS pixels, cleared; drawing units are CSS pixels.
function surface(id, height) {
  const canvas = byId(id);
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = height + "px";
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width];
}

const lineHeight = () => {
  const lines = Math.max(8, ...live.steps.flatMap(step => step.cells.map(cell => cell.line + 1)));
  return {lines, height: Math.max(3, Math.min(14, Math.floor(260 / lines)))};
};

function drawTokens() {
  const [context, width] = surface("tokens", 90);
  const column = width / STEPS_MAX;
  const most = Math.max(1, ...live.steps.map(step => step.prefill + step.decode + step.reused));
  byId("tokens-max").textContent = most;
  live.steps.forEach((step, index) => {
    const x = (index + STEPS_MAX - live.steps.length) * column;
    let y = 90;
    for (const kind of ["decode", "prefill", "reused"]) {
      if (!step[kind]) continue;
      const height = Math.max(1, step[kind] / most * 88);
      context.fillStyle = colour(kind === "reused" ? "cached" : kind);
      context.fillRect(x, y -= height, Math.max(1, column - 1), height);
    }
  });
}

function drawSequences() {
  const {lines, height} = lineHeight();
  const [context, width] = surface("sequences", lines * height);
  const column = width / STEPS_MAX;
  const gap = height > 5 ? 1 : 0;
  const [prefill, decode, cached, preempted] = ["prefill", "decode", "cached", "preempted"].map(colour);
  live.steps.forEach((step, index) => {
    const x = (index + STEPS_MAX - live.steps.length) * column;
    for (const cell of step.cells) {
      context.fillStyle = cell.decode ? decode : prefill;
      context.fillRect(x, cell.line * height, Math.max(1, column - .5), height - gap);
      if (cell.reused) {  // joins with tokens from the cache: the upper half says so
        context.fillStyle = cached;
        context.fillRect(x, cell.line * height, Math.max(2, column - .5), Math.ceil((height - gap) / 2));
      }
    }
    context.fillStyle = preempted;
    for (const lost of step.lost) context.fillRect(x - 1, lost.line * height, Math.max(3, column + 1), height - gap);
  });
}

function drawQueue() {
  const [context, width] = surface("queue", 36);
  const column = width / STEPS_MAX;
  const most = Math.max(1, ...live.steps.map(step => step.waiting));
  byId("queue-max").textContent = Math.max(0, ...live.steps.map(step => step.waiting));
  context.fillStyle = colour("soft");
  live.steps.forEach((step, index) => {
    const height = step.waiting / most * 34;
    context.fillRect((index + STEPS_MAX - live.steps.length) * column, 36 - height, Math.max(1, column - 1), height);
  });
}

function drawBlocks(kv) {
  byId("kv-counts").textContent = `${kv.used} used, ${kv.cached} cached, ${kv.free} free of ${kv.blocks}, ${kv.block_size} tokens each`;
  if (!kv.map) return surface("kv", 20);
  const width = byId("kv").clientWidth;
  const size = Math.max(2, Math.min(12, Math.floor(Math.sqrt(width * 120 / kv.blocks))));
  const columns = Math.max(1, Math.floor(width / size));
  const [context] = surface("kv", Math.ceil(kv.blocks / columns) * size);
  const colours = {".": colour("free"), c: colour("cached"), u: colour("decode"), s: colour("shared")};
  let block = 0;
  for (const [, run, state] of kv.map.matchAll(/(\d+)(.)/g)) {
    context.fillStyle = colours[state];
    for (let end = block + Number(run); block < end; ++block) {
      context.fillRect(block % columns * size, Math.floor(block / columns) * size, size - (size > 3 ? 1 : 0), size - (size > 3 ? 1 : 0));
    }
  }
}

// ---- figures

const rate = key => {
  const first = live.marks[0], last = live.marks.at(-1);
  return last.time > first.time ? (last[key] - first[key]) / (last.time - first.time) : 0;
};
const milliseconds = (latency, percentile) => latency ? latency[percentile].toFixed(latency[percentile] < 10 ? 1 : 0) : "–";

function showTiles(stats) {
  const share = stats.tokens.prompt ? 100 * stats.tokens.cached / stats.tokens.prompt : 0;
  const tail = latency => `${milliseconds(latency, "p50_ms")} <small>/ ${milliseconds(latency, "p95_ms")} / ${milliseconds(latency, "p99_ms")}</small>`;
  const tiles = {
    "running": `${stats.running} <small>of ${stats.max_num_seqs}</small>`,
    "waiting": stats.waiting,
    "output tokens/s": grouped(rate("output")),
    "computed tokens/s": grouped(rate("computed")),
    "prompt from the cache": `${share.toFixed(0)} %`,
    "preemptions": stats.preemptions,
    "TTFT p50 / p95 / p99, ms": tail(stats.ttft),
    "ITL p50 / p95 / p99, ms": tail(stats.itl),
  };
  const box = byId("tiles");
  if (!box.children.length) {
    for (const name of Object.keys(tiles)) box.append(element("div", {}, element("dt", {textContent: name}), element("dd")));
  }
  Object.values(tiles).forEach((value, index) => { box.children[index].lastChild.innerHTML = value; });  // numbers only
}

function showLastStep() {
  const step = live.steps.at(-1);
  if (!step || !byId("last-step").closest("details").open) return;
  byId("last-step").replaceChildren(...step.cells.map(cell => element("tr", {}, ...[cell.id, cell.decode ? "decode" : "prefill", cell.tokens, cell.context, cell.reused].map(value => element("td", {textContent: value})))));
}

function draw() {
  if (!live.latest) return;
  drawTokens();
  drawSequences();
  drawQueue();
  drawBlocks(live.latest.kv);
  showTiles(live.latest);
  showLastStep();
  const first = live.steps[0], last = live.steps.at(-1);
  byId("steps-range").textContent = last ? `${first.step} to ${last.step}, ${last.duration_ms.toFixed(2)} ms the last` : "none yet";
}

byId("sequences").addEventListener("pointermove", event => {
  const width = event.target.clientWidth;
  const index = Math.floor(event.offsetX / width * STEPS_MAX) - STEPS_MAX + live.steps.length;
  const line = Math.floor(event.offsetY / lineHeight().height);
  const step = live.steps[index];
  const cell = step?.cells.find(each => each.line === line);
  const lost = step?.lost.find(each => each.line === line);
  byId("pointed").textContent = lost ? `Step ${step.step}: sequence ${lost.id} was preempted and lost ${lost.tokens} tokens.`
    : cell ? `Step ${step.step}: sequence ${cell.id}, ${cell.decode ? "decode" : "prefill"} of ${cell.tokens}, context ${cell.context}${cell.reused ? `, ${cell.reused} reused from the cache` : ""}.`
    : "Point at a square to see what it is.";
});
byId("pause").addEventListener("click", event => {
  live.paused = !live.paused;
  event.currentTarget.setAttribute("aria-pressed", String(live.paused));
  event.currentTarget.textContent = live.paused ? "Go on" : "Pause";
});
window.addEventListener("resize", draw);

async function poll() {
  let period = PERIOD_MS;
  if (!live.paused && !document.hidden) {
    try {
      take(await getJson("/inflight/stats?since=" + live.last));
      draw();
    } catch (error) {
      tellWrong(error);
      if (error.status === 401) period = LOCKED_PERIOD_MS;
    }
  }
  setTimeout(poll, period);
}
connect();
poll();
