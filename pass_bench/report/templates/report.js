"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const SVG = "http://www.w3.org/2000/svg";
  const WEAK = 1, NOISY = 2, INTERPRETED = 4, PAGE = 150;

  // Text from passes and logs only ever becomes text nodes.
  function el(tag, attributes = {}, ...children) {
    const node = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === undefined || value === null || value === false) continue;
      if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
      else node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }

  const number = (value, digits = 3) => (typeof value === "number" ? value.toFixed(digits) : "–");
  const times = (value) => (typeof value === "number" ? `${value.toFixed(value < 10 ? 2 : 1)}×` : "–");
  const small = (value) => {
    if (typeof value !== "number") return value ?? "–";
    const size = Math.abs(value);
    return size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(1) : String(Number(value.toPrecision(3)));
  };
  const micro = (us) => (typeof us !== "number" ? "–" : us < 1000 ? `${us.toPrecision(3)} µs` : `${(us / 1000).toPrecision(3)} ms`);
  const around = ([median, low, high]) => (median < 1000 ? `${micro(median)} (${low.toPrecision(3)} – ${high.toPrecision(3)})`
    : `${micro(median)} (${(low / 1000).toPrecision(3)} – ${(high / 1000).toPrecision(3)})`);
  const exact = (value) => (typeof value === "number" ? String(Number(value.toPrecision(7))) : value ?? "–");
  const bytes = (n) => (n < 1024 ? `${n} B` : n < 1048576 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / 1048576).toFixed(1)} MiB`);
  const words = (name) => name.replaceAll("_", " ");
  const tail = (path) => path.split("/").filter(Boolean).pop() || path;
  const gmean = (values) => (values.length ? Math.exp(values.reduce((sum, v) => sum + Math.log(v), 0) / values.length) : null);

  async function unpack() {
    const packed = Uint8Array.from(atob($("#data").textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  function theme() {
    const root = document.documentElement;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const apply = () => (root.dataset.theme = dark.matches ? "dark" : "light");
    apply();
    dark.addEventListener("change", apply);
    $("#theme").addEventListener("click", () => (root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark"));
  }

  function curveHover() {
    const drawing = $("#es svg");
    if (!drawing) return;
    const data = JSON.parse(drawing.dataset.curves), box = $("#es .hover"), cursor = $(".cursor", drawing);
    drawing.addEventListener("pointermove", (event) => {
      const frame = drawing.getBoundingClientRect(), scale = frame.width / 640;
      const last = data.levels.length - 1;
      const at = ((event.clientX - frame.left) / scale - data.x0) / (data.x1 - data.x0) * last;
      const i = Math.min(Math.max(Math.round(at), 0), last), x = data.x0 + ((data.x1 - data.x0) * i) / last;
      cursor.setAttribute("x1", x); cursor.setAttribute("x2", x);
      const lines = [...data.series].sort((a, b) => b.y[i] - a.y[i]).map((series) =>
        el("div", {}, el("span", {}, el("i", { class: `swatch ${series.colour}` }), series.title), el("b", {}, number(series.y[i]))));
      box.replaceChildren(el("div", {}, el("b", {}, `t = ${data.levels[i]}`)), ...lines);
      box.hidden = false;
      const left = x * scale + 14;
      box.style.left = `${left + box.offsetWidth > frame.width ? x * scale - box.offsetWidth - 14 : left}px`;
    });
    drawing.addEventListener("pointerleave", () => { box.hidden = true; cursor.setAttribute("x1", -9); cursor.setAttribute("x2", -9); });
  }

  function toGraphs(data) {
    const seen = data.subs.map(() => 0);
    return data.rows.map((row, i) => {
      const [sub, sample, graph, index, dtype, verdict, speed, low, high, eager, compiled, flags, level, inductor, reason] = row;
      return { i, sub, sample: data.samples[sample], graph, index, dtype, verdict, speed, low, high, eager, compiled, flags, level,
        inductor, reason, position: seen[sub]++, correct: verdict === "correct" || (level !== null && level <= -5) };
    });
  }

  function toSamples(data, graphs) {
    const groups = new Map();
    for (const graph of graphs) {
      const key = `${graph.sub}\n${graph.sample}`;
      if (!groups.has(key)) groups.set(key, { sub: graph.sub, sample: graph.sample, members: [] });
      groups.get(key).members.push(graph);
    }
    for (const [sub, sample, score, correct, judged, speed] of data.scores) {
      const group = groups.get(`${sub}\n${data.samples[sample]}`);
      if (group) Object.assign(group, { score, right: correct, judged, speed, share: judged ? correct / judged : null });
    }
    for (const group of groups.values()) {
      const fast = group.members.filter((g) => g.correct && g.speed !== null);
      group.low = fast.length ? Math.min(...fast.map((g) => g.speed)) : null;
      group.high = fast.length ? Math.max(...fast.map((g) => g.speed)) : null;
      group.inductor = gmean(group.members.map((g) => g.inductor).filter((v) => v !== null));
      group.flags = group.members.reduce((bits, g) => bits | g.flags, 0);
    }
    return [...groups.values()];
  }

  function spark(mid, low, high, colour) {
    const x = (value) => 60 + Math.max(-56, Math.min(56, Math.log2(value) * 28));
    const drawing = el("svg:svg", { class: `spark ${colour}`, viewBox: "0 0 120 16", "aria-hidden": "true" },
      el("svg:line", { class: "one", x1: 60, x2: 60, y1: 1, y2: 15 }));
    if (mid === null || mid === undefined) return drawing;
    drawing.append(el("svg:line", { class: "span", x1: x(low), x2: x(high), y1: 8, y2: 8 }), el("svg:circle", { class: "mid", cx: x(mid), cy: 8, r: 3.2 }));
    return drawing;
  }

  const flagsOf = (flags) => [[WEAK, "weak"], [NOISY, "noisy"], [INTERPRETED, "interpreted"]]
    .filter(([bit]) => flags & bit).map(([, name]) => el("span", { class: `flag ${name}` }, name));
  const verdictOf = (name) => el("span", { class: "verdict-name" }, el("i", { class: `swatch v-${name}` }), words(name));

  const COLUMNS = {
    samples: [
      ["sample", "name", (r) => r.sample, (r) => r.sample],
      ["graphs", "n", (r) => r.members.length, (r) => String(r.members.length)],
      ["correct", "n", (r) => r.share ?? null, (r) => `${r.right}/${r.judged}`],
      ["AS", "n", (r) => r.score ?? null, (r) => number(r.score)],
      ["speedup", "n", (r) => r.speed ?? null, (r) => times(r.speed)],
      ["range", "", (r) => r.high, (r, colour) => spark(r.speed, r.low, r.high, colour)],
      ["vs Inductor", "n", (r) => r.inductor, (r) => times(r.inductor)],
      ["flags", "", (r) => r.flags, (r) => flagsOf(r.flags)],
    ],
    graphs: [
      ["graph", "name", (r) => `${r.sample} ${r.graph}`, (r) => [el("span", { title: r.graph }, tail(r.graph)), el("div", { class: "faint", title: r.sample }, `${r.dtype ? `${r.dtype} · ` : ""}${r.sample}`)]],
      ["verdict", "reason", (r) => r.verdict, (r) => [verdictOf(r.verdict), r.reason ? el("div", { class: "faint", title: r.reason }, r.reason) : null]],
      ["passes from", "n", (r) => r.level, (r) => (r.level === null ? "–" : `t = ${r.level}`)],
      ["eager", "n", (r) => r.eager, (r) => micro(r.eager)],
      ["compiled", "n", (r) => r.compiled, (r) => micro(r.compiled)],
      ["speedup", "n", (r) => r.speed, (r) => times(r.speed)],
      ["95 % interval", "", (r) => (r.speed === null ? null : r.high - r.low), (r, colour) => spark(r.speed, r.low, r.high, colour)],
      ["vs Inductor", "n", (r) => r.inductor, (r) => times(r.inductor)],
      ["flags", "", (r) => r.flags, (r) => flagsOf(r.flags)],
    ],
  };

  function browser(data) {
    const graphs = toGraphs(data), samples = toSamples(data, graphs);
    const state = { mode: "samples", sub: 0, text: "", verdict: "", flag: 0, pair: null, letter: "", sort: { samples: [3, -1], graphs: [5, -1] }, shown: PAGE, open: new Set() };
    const head = $("#list thead"), body = $("#list tbody");

    function keeps(graph) {
      if (state.verdict === "!" ? graph.correct : state.verdict && graph.verdict !== state.verdict) return false;
      if (state.flag && !(graph.flags & state.flag)) return false;
      if (state.letter && data.pairs[state.pair][2][graph.position] !== state.letter) return false;
      return !state.text || `${graph.sample} ${graph.graph} ${graph.dtype} ${graph.verdict} ${graph.reason}`.toLowerCase().includes(state.text);
    }

    function chosen() {
      const rows = state.mode === "graphs"
        ? graphs.filter((graph) => graph.sub === state.sub && keeps(graph))
        : samples.filter((sample) => sample.sub === state.sub && sample.members.some(keeps));
      const [column, direction] = state.sort[state.mode], value = COLUMNS[state.mode][column][2];
      // What has no value stands last, whichever way the rest is sorted.
      return rows.sort((a, b) => {
        const x = value(a) ?? null, y = value(b) ?? null;
        if (x === null || y === null) return (x === null) - (y === null);
        return (typeof x === "string" ? x.localeCompare(y) : x - y) * direction;
      });
    }

    const hasInductor = data.subs.map((_, sub) => graphs.some((graph) => graph.sub === sub && graph.inductor !== null));
    const shownColumns = (mode) => [...COLUMNS[mode].entries()].filter(([, [name]]) => name !== "vs Inductor" || hasInductor[state.sub]);

    function cells(mode, row, colour) {
      return shownColumns(mode).map(([, [, css, , show]]) => el("td", { class: css }, ...[show(row, colour)].flat().filter((part) => part !== null)));
    }

    function graphLine(graph, colour, child) {
      const open = () => showGraph(data, graph);
      return el("tr", { class: child ? "child" : null, tabindex: 0, "data-graph": graph.i, on: { click: open, keydown: (e) => { if (e.key === "Enter") open(); } } },
        ...(child ? childCells(graph, colour) : cells("graphs", graph, colour)));
    }

    function childCells(graph, colour) {
      return [el("td", { class: "name" }, tail(graph.graph), " ", el("span", { class: "faint" }, graph.dtype)), el("td"), el("td", { class: "n" }, verdictOf(graph.verdict)),
        el("td"), el("td", { class: "n" }, times(graph.speed)), el("td", {}, spark(graph.speed, graph.low, graph.high, colour)),
        ...(hasInductor[graph.sub] ? [el("td", { class: "n" }, times(graph.inductor))] : []), el("td", {}, ...flagsOf(graph.flags))];
    }

    function render() {
      const rows = chosen(), colour = data.subs[state.sub][3], [column, direction] = state.sort[state.mode];
      head.replaceChildren(el("tr", {}, ...shownColumns(state.mode).map(([i, [name, css]]) =>
        el("th", { class: css === "n" ? "n" : null, tabindex: 0, scope: "col", "aria-sort": i === column ? (direction > 0 ? "ascending" : "descending") : null,
          on: { click: () => sortBy(i), keydown: (e) => { if (e.key === "Enter") sortBy(i); } } }, name))));
      body.replaceChildren();
      for (const row of rows.slice(0, state.shown)) {
        if (state.mode === "graphs") { body.append(graphLine(row, colour, false)); continue; }
        const toggle = () => { state.open.has(row) ? state.open.delete(row) : state.open.add(row); render(); };
        body.append(el("tr", { tabindex: 0, "aria-expanded": String(state.open.has(row)), on: { click: toggle, keydown: (e) => { if (e.key === "Enter") toggle(); } } }, ...cells("samples", row, colour)));
        if (state.open.has(row)) body.append(...row.members.filter(keeps).map((graph) => graphLine(graph, colour, true)));
      }
      $("#more").hidden = rows.length <= state.shown;
      $("#count").textContent = `${rows.length} ${rows.length === 1 ? state.mode.slice(0, -1) : state.mode}`;
      $$(".seg button").forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.mode === state.mode)));
      const chip = $("#change");
      chip.hidden = !state.letter;
      chip.textContent = state.letter ? `${{ b: "better", s: "same", w: "worse" }[state.letter]} than ${data.subs[data.pairs[state.pair][0]][0]} ✕` : "";
      $("#sub").value = state.sub; $("#verdict").value = state.verdict; $("#flag").value = state.flag;
    }

    function sortBy(column) {
      const [current, direction] = state.sort[state.mode];
      const text = column === 0 || (state.mode === "graphs" && column === 1);
      state.sort[state.mode] = [column, column === current ? -direction : text ? 1 : -1];
      render();
    }

    function change(update) { Object.assign(state, { shown: PAGE }, update); render(); }

    $("#sub").append(...data.subs.map(([title], i) => el("option", { value: i }, title)));
    $("#sub").addEventListener("change", (e) => change({ sub: Number(e.target.value), letter: "" }));
    $("#find").addEventListener("input", (e) => change({ text: e.target.value.trim().toLowerCase() }));
    $("#verdict").addEventListener("change", (e) => change({ verdict: e.target.value }));
    $("#flag").addEventListener("change", (e) => change({ flag: Number(e.target.value) }));
    $("#change").addEventListener("click", () => change({ letter: "" }));
    $("#more").addEventListener("click", () => { state.shown += 2 * PAGE; render(); });
    $$(".seg button").forEach((b) => b.addEventListener("click", () => change({ mode: b.dataset.mode })));
    const jump = (update) => { change({ mode: "graphs", text: "", verdict: "", flag: 0, letter: "", ...update }); $("#find").value = ""; $("#tables").scrollIntoView(); };
    $$("button[data-verdict]").forEach((b) => b.addEventListener("click", () => jump({ sub: Number(b.dataset.sub), verdict: b.dataset.verdict })));
    $$("button[data-change]").forEach((b) => b.addEventListener("click", () => {
      const pair = Number(b.dataset.pair);
      jump({ sub: data.pairs[pair][1], pair, letter: b.dataset.change });
    }));
    render();
  }

  function levels(from) {
    const drawing = el("svg:svg", { class: "levels", viewBox: "0 0 160 18", "aria-hidden": "true" });
    for (let t = -10; t <= 5; t++) {
      drawing.append(el("svg:rect", { class: from !== null && t >= from ? "ok" : "no", x: (t + 10) * 10, y: 4, width: 9, height: 10, rx: 2 }, el("svg:title", {}, `t = ${t}`)));
    }
    drawing.append(el("svg:line", { class: "base", x1: 54.5, x2: 54.5, y1: 0, y2: 18 }));
    return drawing;
  }

  const table = (heads, rows) => el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((h) => el("th", {}, h)))),
    el("tbody", {}, ...rows.map((cells) => el("tr", {}, ...cells.map((cell) => el("td", {}, ...[cell].flat())))))));
  const part = (title, ...content) => [el("h4", {}, title), ...content];

  function errorsOf(detail) {
    const rows = [];
    for (const [regime, from, error, skipped, tensors, left] of detail.regimes || []) {
      if (error || skipped) rows.push([regime, error ? `raised: ${error}` : `skipped: ${skipped}`, "", "", "", ""]);
      for (const [where, dtype, compiled, shape, level, max, mean, nonfinite, worst, f64, eager64] of tensors) {
        const kind = `${dtype}${compiled === dtype ? "" : ` → ${compiled}`} [${shape.join(", ")}]`;
        const at = worst ? `[${worst[0].join(", ")}] expected ${exact(worst[1])}, got ${exact(worst[2])}, allowed ±${small(worst[3])}` : "–";
        const truth = f64 === null ? "–" : `${small(f64)} (eager ${small(eager64)})`;
        rows.push([`${regime} · ${where}`, el("span", {}, kind, nonfinite ? el("span", { class: "flag weak" }, "NaN or inf") : ""), el("span", { title: `passes from t = ${level ?? "never"}` }, levels(level), ` ${level ?? "never"}`), `${small(max)} / ${small(mean)}`, truth, at]);
      }
      if (left) rows.push([`${regime} · ${left} more`, "", "", "", "", ""]);
    }
    return rows;
  }

  function showGraph(data, graph) {
    const detail = data.details[graph.i], [title, , , colour] = data.subs[graph.sub];
    const close = el("button", { class: "close", type: "button", "aria-label": "Close", on: { click: () => $("#drawer").close() } }, "✕");
    const card = $("#card");
    const facts = [["submission", title], ["verdict", words(graph.verdict)], ["passes from", graph.level === null ? "no t" : `t = ${graph.level}`], ["device", detail.device],
      ["weak at", detail.weak_at === undefined ? null : `t = ${detail.weak_at}`], ["graph breaks", detail.breaks],
      ["peak memory", detail.memory ? `${bytes(detail.memory[1])} (eager ${bytes(detail.memory[0])})` : null],
      ["took", detail.phases && detail.phases[3] ? `${small(detail.phases[3])} s` : null], ["measured", detail.at ? detail.at.slice(0, 16).replace("T", " ") : null]];
    card.replaceChildren(close, el("h3", {}, tail(graph.graph)), el("p", { class: "sub" }, `${graph.sample} · ${graph.graph} · ${graph.dtype}`),
      el("div", { class: "facts" }, ...facts.filter(([, v]) => v !== null && v !== undefined && v !== "").map(([k, v]) => el("span", {}, `${k} `, el("b", {}, String(v))))));
    if (detail.why) card.append(el("p", { class: `callout${graph.correct ? "" : " bad"}` }, detail.why));
    if (graph.flags & WEAK) card.append(el("p", { class: "callout" }, `Weak: zeros, the mean or an input passed through would be right from t = ${detail.weak_at}.`));
    if (graph.flags & INTERPRETED) card.append(el("p", { class: "callout" }, "The kernels were interpreted: verified, but the time is not a speed."));
    for (const warning of detail.warnings || []) card.append(el("p", { class: "callout" }, warning));
    for (const [rule, why, file, line] of detail.violations || []) card.append(el("p", { class: "callout bad" }, `${rule}: ${why}${file ? ` (${file}${line ? `:${line}` : ""})` : ""}`));
    const clocks = Object.entries(detail.times || {});
    if (clocks.length) card.append(...part("Times", table(["", "eager", "compiled", "speedup", "95 % interval", ""], clocks.map(([name, [eager, compiled, speed, low, high, noisy]]) =>
      [name, around(eager), around(compiled), el("b", {}, times(speed)), [`${number(low)} – ${number(high)} `, spark(speed, low, high, colour)], noisy ? flagsOf(NOISY) : ""])),
      el("p", { class: "note" }, "Medians with quartiles; the interval is that of the ratio.")));
    const errors = errorsOf(detail);
    if (errors.length) card.append(...part("Errors against tolerance", table(["", "tensor", "passes from t", "max / mean error", "against float64", "worst element"], errors),
      el("p", { class: "note" }, "Green: passes at that t. The line marks t = −5, PyTorch's own tolerance.")));
    if (detail.passes) card.append(...part("Passes", table(["pass", "matched", "replaced", ""], detail.passes.map(([name, matched, replaced, skipped, miss]) => [name, String(matched), String(replaced), skipped ? `skipped: ${skipped}` : miss ? `nearest miss: ${miss}` : ""]))));
    if (detail.trace) card.append(...part("Traceback", el("pre", {}, detail.trace)));
    if (detail.log) card.append(...part("Log tail", el("pre", {}, detail.log)));
    const source = detail.source === undefined ? null : data.codes[detail.source];
    card.append(...part("Graph", source ? el("pre", {}, source) : el("p", { class: "note" }, "The graph's text was not found when this report was made.")));
    $("#drawer").showModal();
    $("#drawer").scrollTop = 0;
  }

  function pairs() {
    const select = $("#pair");
    if (!select) return;
    select.addEventListener("change", () => $$(".changes").forEach((block) => (block.hidden = block.dataset.pair !== select.value)));
  }

  theme(); curveHover(); pairs();
  $("#drawer").addEventListener("click", (event) => { if (event.target === $("#drawer")) $("#drawer").close(); });
  unpack().then(browser).then(() => (document.documentElement.dataset.ready = "yes"), (error) => {
    $("#count").textContent = "This browser cannot unpack the tables.";
    document.documentElement.dataset.ready = "no";
    throw error;
  });
})();
