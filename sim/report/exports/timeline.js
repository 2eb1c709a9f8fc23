"use strict";
// Draws the spans of the file on a canvas: rows are tracks, x is cycles. Everything is redrawn on each change.
(async () => {
  const LABEL = 168, GAP = 10, HEIGHT = { blocks: 8, warps: 12, loads: 4, "asynchronous copies": 4 };
  const find = (id) => document.getElementById(id);
  const meta = JSON.parse(find("meta").textContent);
  const columns = unpack(await gunzip(find("data").textContent), meta);
  const [chart, axis, tip] = [find("chart"), find("axis"), find("tip")];
  const rows = layOut(meta.tracks);
  const height = rows.length ? rows.at(-1).y + rows.at(-1).height + GAP : 40;
  let view = [0, Math.max(meta.cycles, 1)], chosen = -1, width = 0, pending = false;

  async function gunzip(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).arrayBuffer();
  }

  function unpack(buffer, { columns, tracks }) {
    const types = { "<u4": Uint32Array, "<i4": Int32Array, "<i2": Int16Array, u1: Uint8Array };
    const count = tracks.reduce((sum, track) => sum + track[3], 0), found = {};
    let at = 0;
    for (const [name, type] of columns) {
      const size = count * types[type].BYTES_PER_ELEMENT;
      found[name] = new types[type](buffer.slice(at, at + size));
      at += size;
    }
    return found;
  }

  // Rows from top to bottom; a gap and a heading where the SM or the kind changes.
  function layOut(tracks) {
    let y = 4, first = 0, last = "";
    return tracks.map(([sm, kind, lane, count]) => {
      const group = `${sm} ${kind}`;
      const heading = group === last ? "" : `SM ${sm}  ${kind}`;
      if (heading && last) y += kind === "blocks" && last.endsWith("blocks") ? 3 : GAP;
      const row = { sm, kind, lane, first, end: first + count, y, height: HEIGHT[kind], heading };
      y += row.height + 1;
      first += count;
      last = group;
      return row;
    });
  }

  const scale = () => (width - LABEL) / (view[1] - view[0]);
  const cycleAt = (x) => view[0] + (x - LABEL) / scale();

  // The first span of a row that ends after a cycle; spans of a row follow each other.
  function firstAfter(row, cycle) {
    let [low, high] = [row.first, row.end];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (columns.start[middle] + columns.length[middle] > cycle) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  function colour(state) {
    return chosen < 0 || state === chosen ? meta.states[state][1] : ink.line;
  }

  let ink = {};
  function readInk() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["paper", "ink", "faint", "line", "row"]) ink[name] = style.getPropertyValue(`--${name}`).trim();
  }

  function prepare(canvas, cssHeight) {
    const ratio = window.devicePixelRatio || 1;
    canvas.style.height = `${cssHeight}px`;
    const [w, h] = [Math.round(width * ratio), Math.round(cssHeight * ratio)];
    if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, cssHeight);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    return context;
  }

  function draw() {
    pending = false;
    width = find("scroll").clientWidth;
    readInk();
    const context = prepare(chart, height);
    for (const row of rows) {
      context.fillStyle = ink.row;
      context.fillRect(LABEL, row.y, width - LABEL, row.height);
      drawRow(context, row);
      if (!row.heading && !(row.kind === "warps" && row.lane % 8 === 0)) continue;
      context.fillStyle = row.heading ? ink.ink : ink.faint;
      context.fillText(row.heading || `slot ${row.lane}`, 6, row.y + row.height / 2 + 0.5);
    }
    drawAxis();
    find("span").textContent = `cycles ${whole(view[0])} to ${whole(view[1])}`;
  }

  // Spans narrower than a pixel share it: the state with the most cycles there gives the colour.
  function drawRow(context, row) {
    const pixels = scale(), time = new Float64Array(meta.states.length);
    let pixel = -1;
    const flush = () => {
      if (pixel < 0) return;
      const most = time.reduce((best, value, state) => (value > time[best] ? state : best), 0);
      if (time[most] > 0) {
        context.fillStyle = colour(chosen >= 0 && time[chosen] > 0 ? chosen : most);
        context.fillRect(pixel, row.y, 1, row.height);
      }
      time.fill(0);
      pixel = -1;
    };
    for (let k = firstAfter(row, view[0]); k < row.end && columns.start[k] < view[1]; k++) {
      const left = Math.max(LABEL, LABEL + (columns.start[k] - view[0]) * pixels);
      const right = Math.min(width, LABEL + (columns.start[k] + columns.length[k] - view[0]) * pixels);
      if (right - left < 1) {
        if (Math.floor(left) !== pixel) flush();
        pixel = Math.floor(left);
        time[columns.state[k]] += columns.length[k];
        continue;
      }
      flush();
      context.fillStyle = colour(columns.state[k]);
      const seam = row.kind !== "warps" && right - left > 3 ? 1 : 0; // between blocks, loads, copies
      context.fillRect(left, row.y, right - left - seam, row.height);
    }
    flush();
  }

  function drawAxis() {
    const context = prepare(axis, 26), wanted = (view[1] - view[0]) / Math.max(2, (width - LABEL) / 110);
    const power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1)));
    const step = Math.max(1, [1, 2, 5, 10].find((factor) => factor * power >= wanted) * power);
    context.fillStyle = ink.faint;
    context.strokeStyle = ink.line;
    context.fillText("cycles from launch", 6, 13);
    for (let cycle = Math.ceil(view[0] / step) * step; cycle <= view[1]; cycle += step) {
      const x = LABEL + (cycle - view[0]) * scale();
      context.beginPath();
      context.moveTo(x, 18);
      context.lineTo(x, 26);
      context.stroke();
      const text = whole(cycle), half = context.measureText(text).width / 2;
      context.fillText(text, Math.min(Math.max(x - half, LABEL), width - 2 * half - 2), 10);
    }
  }

  const whole = (number) => Math.round(number).toLocaleString("en-US");

  function redraw() {
    if (!pending) requestAnimationFrame(draw);
    pending = true;
  }

  // At least eight cycles, within the launch.
  function show(from, to) {
    const size = Math.min(Math.max(to - from, 8), meta.cycles), start = Math.min(Math.max(from, 0), meta.cycles - size);
    view = [start, start + size];
    redraw();
  }

  function zoom(factor, around = (view[0] + view[1]) / 2) {
    show(around - (around - view[0]) / factor, around + (view[1] - around) / factor);
  }

  function spanAt(x, y) {
    const row = rows.find((each) => y >= each.y && y <= each.y + each.height);
    if (!row || x < LABEL) return null;
    const cycle = cycleAt(x), k = firstAfter(row, cycle);
    return k < row.end && columns.start[k] <= cycle ? [row, k] : null;
  }

  function describe([row, k]) {
    const [name, , meaning] = meta.states[columns.state[k]], from = columns.start[k], length = columns.length[k];
    const lines = [];
    const add = (tag, text) => {
      const line = document.createElement(tag);
      line.textContent = text;
      lines.push(line, tag === "b" ? "" : document.createElement("br"));
    };
    const block = columns.state[k] === meta.block, own = row.kind === "warps";
    add("b", block ? `Block ${columns.block[k]}` : own ? name : `${row.kind}: in flight`);
    add("span", `SM ${row.sm}, ` + (block ? "" : `block ${columns.block[k]}, warp ${columns.warp[k]}, `)
      + `cycles ${whole(from)} to ${whole(from + length)} (${whole(length)})`);
    const instruction = meta.instructions[columns.pc[k]];
    if (instruction) {
      const [sass, address, line, source] = instruction;
      add("code", `${address.toString(16).padStart(4, "0")}  ${sass}`);
      if (source) add("code", `line ${line}: ${source}`);
    }
    if (columns.on[k]) add("span", `${bits(columns.on[k])} of 32 threads`);
    if (!block) add("span", own ? `The warp ${meaning}.` : `It ${meaning}.`);
    lines.at(-2).className = "hint";
    return lines.slice(0, -1);
  }

  function bits(mask) {
    let count = 0;
    for (; mask; mask = (mask & (mask - 1)) >>> 0) count++;
    return count;
  }

  function point(event) {
    const box = chart.getBoundingClientRect(), span = spanAt(event.clientX - box.left, event.clientY - box.top);
    tip.hidden = !span;
    if (!span) return;
    tip.replaceChildren(...describe(span));
    const { offsetWidth: w, offsetHeight: h } = tip;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - w - 8))}px`;
    tip.style.top = `${event.clientY + 18 + h > innerHeight ? event.clientY - h - 12 : event.clientY + 18}px`;
  }

  function makeLegend() {
    const cycles = new Float64Array(meta.states.length);
    let total = 0;
    for (const row of rows.filter((each) => each.kind === "warps")) {
      for (let k = row.first; k < row.end; k++) {
        cycles[columns.state[k]] += columns.length[k];
        total += columns.length[k];
      }
    }
    const order = [...cycles.keys()].filter((state) => cycles[state]).sort((a, b) => cycles[b] - cycles[a]);
    for (const state of order) {
      const [name, shade, meaning] = meta.states[state], entry = document.createElement("button");
      const key = document.createElement("i");
      key.style.background = shade;
      entry.title = `the warp ${meaning}`;
      entry.setAttribute("aria-pressed", "false");
      entry.append(key, `${name} ${((100 * cycles[state]) / total).toFixed(1)} %`);
      entry.onclick = () => {
        chosen = chosen === state ? -1 : state;
        for (const each of find("legend").children) each.setAttribute("aria-pressed", String(each === entry && chosen >= 0));
        redraw();
      };
      find("legend").append(entry);
    }
  }

  let grip = null;
  chart.addEventListener("pointerdown", (event) => {
    grip = [event.clientX, ...view];
    chart.setPointerCapture(event.pointerId);
  });
  chart.addEventListener("pointerup", () => (grip = null));
  chart.addEventListener("pointermove", (event) => {
    if (grip) {
      const moved = (event.clientX - grip[0]) / scale();
      show(grip[1] - moved, grip[2] - moved);
    }
    point(event);
  });
  chart.addEventListener("pointerleave", () => (tip.hidden = true));
  const at = (event) => cycleAt(event.clientX - chart.getBoundingClientRect().left);
  chart.addEventListener("dblclick", (event) => zoom(4, at(event)));
  find("rows").addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) zoom(1.0015 ** -event.deltaY, at(event));
    else if (event.deltaX || event.shiftKey) show(...view.map((edge) => edge + (event.deltaX || event.deltaY) / scale()));
    else return; // the page scrolls
    event.preventDefault();
  }, { passive: false });
  const keys = {
    "+": () => zoom(2), "=": () => zoom(2), "-": () => zoom(0.5), 0: () => show(0, meta.cycles),
    ArrowLeft: () => show(...view.map((edge) => edge - (view[1] - view[0]) / 8)),
    ArrowRight: () => show(...view.map((edge) => edge + (view[1] - view[0]) / 8)),
  };
  chart.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  find("in").onclick = keys["+"];
  find("out").onclick = keys["-"];
  find("all").onclick = keys[0];
  new ResizeObserver(redraw).observe(find("scroll"));
  makeLegend();
  draw();
  document.body.dataset.ready = "yes"; // for scripts that wait for the drawing
})();
