"use strict";
(() => {
  const $ = (id) => document.getElementById(id);

  // ---- Making elements: texts of cells become text nodes, never markup ----

  // Makes an element with a class and children, which are nodes or texts.
  function el(tag, className, ...children) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...children.map((child) => (child instanceof Node ? child : document.createTextNode(child))));
    return made;
  }

  function svg(tag, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const name in attributes) made.setAttribute(name, attributes[name]);
    return made;
  }

  function button(text, action, more) {
    const made = el("button", "", text);
    made.type = "button";
    if (more) made.append(el("span", "sr", " " + more));
    made.addEventListener("click", action);
    return made;
  }

  const whole = new Intl.NumberFormat("en-US");
  const number = (value) => whole.format(value);
  const counted = (value, one, many = one + "s") => `${number(value)} ${value === 1 ? one : many}`;
  const share = (part, of) => (of ? `${(100 * part / of).toFixed(part === of || part === 0 ? 0 : 1)} %` : "–");

  // ---- The data ----

  let data;
  try {
    data = JSON.parse($("data").textContent);
    if (data.format !== 1) throw new Error(`the data have format ${data.format}, this page reads format 1`);
  } catch (error) {
    $("problem").textContent = `The data of this page cannot be read: ${error.message}`;
    $("problem").hidden = false;
    return;
  }
  const single = data.tables.length === 1;
  const leftTable = data.tables[0];
  const rightTable = data.tables[data.tables.length - 1];
  // Rows of both tables are nodes: those of the right one start at `offset`.
  const offset = single ? 0 : leftTable.ids.length;
  const nodes = offset + rightTable.ids.length;
  const scores = Float64Array.from(data.pairs.score);
  const lefts = Int32Array.from(data.pairs.left);
  const rights = Int32Array.from(data.pairs.right, (place) => place + offset);
  const total = scores.length;
  const best = data.best ?? (total ? scores[0] : data.weakest);
  // A threshold that may be the one, with a reason, is named and never taken by itself.
  const suggested = data.why ? data.suggested ?? data.at : null;
  const integers = scores.every(Number.isInteger) && Number.isInteger(data.weakest) && Number.isInteger(best);

  const tableOf = (node) => (single || node < offset ? leftTable : rightTable);
  const placeOf = (node) => (single || node < offset ? node : node - offset);
  const idOf = (node) => tableOf(node).ids[placeOf(node)];
  const cellOf = (node, column) => tableOf(node).cells[column][placeOf(node)];

  // For each node its pairs, best first: edges[starts[node]] up to edges[starts[node + 1]].
  const starts = new Int32Array(nodes + 1);
  const edges = new Int32Array(2 * total);
  for (let p = 0; p < total; p++) {
    starts[lefts[p] + 1]++;
    starts[rights[p] + 1]++;
  }
  for (let node = 0; node < nodes; node++) starts[node + 1] += starts[node];
  const filled = starts.slice(0, nodes);
  for (let p = 0; p < total; p++) {
    edges[filled[lefts[p]]++] = p;
    edges[filled[rights[p]]++] = p;
  }
  const isPaired = (node, n) => starts[node] < starts[node + 1] && edges[starts[node]] < n;

  // The rows in the order in which they are kept.
  const keepOrder = Int32Array.from({ length: nodes }, (_, node) => node);
  if (single && leftTable.rank) keepOrder.sort((x, y) => leftTable.rank[x] - leftTable.rank[y] || x - y);

  // ---- Counting: pairs are sorted, so those within a threshold are the first n ----

  function pairsWithin(threshold) {
    let low = 0, high = total;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (data.distance ? scores[middle] <= threshold : scores[middle] >= threshold) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Joins rows into groups, pair by pair, and counts the groups of two or more.
  class Forest {
    constructor() {
      this.parent = Int32Array.from({ length: nodes }, (_, node) => node);
      this.size = new Int32Array(nodes).fill(1);
      this.groups = this.rows = this.largest = this.pairs = 0;
    }
    find(node) {
      const parent = this.parent;
      while (parent[node] !== node) node = parent[node] = parent[parent[node]];
      return node;
    }
    addUpTo(n) {
      for (; this.pairs < n; this.pairs++) this.add(lefts[this.pairs], rights[this.pairs]);
      return this;
    }
    add(left, right) {
      let x = this.find(left), y = this.find(right);
      if (x === y) return;
      if (this.size[x] < this.size[y]) [x, y] = [y, x];
      if (this.size[x] === 1) { this.groups++; this.rows += 2; }
      else if (this.size[y] === 1) this.rows++;
      else this.groups--;
      this.parent[y] = x;
      this.size[x] += this.size[y];
      if (this.size[x] > this.largest) this.largest = this.size[x];
    }
  }

  // Gives for each row the pair for which it is dropped, -1 for those that are kept.
  function dropsAt(n) {
    const drops = new Int32Array(nodes).fill(-1);
    const kept = new Uint8Array(nodes);
    let dropped = 0;
    for (const node of keepOrder) {
      kept[node] = 1;
      for (let e = starts[node]; e < starts[node + 1] && edges[e] < n; e++) {
        const p = edges[e];
        const other = lefts[p] === node ? rights[p] : lefts[p];
        if (other === node || !kept[other]) continue;
        kept[node] = 0;
        drops[node] = p;
        dropped++;
        break;
      }
    }
    return { drops, dropped };
  }

  // Gives the groups of the first n pairs, by first row, with rows, pairs and weakest pair of each.
  function groupsAt(n, forest) {
    const groupOf = new Int32Array(nodes).fill(-1);
    const groups = [];
    for (let node = 0; node < nodes; node++) {
      if (!isPaired(node, n)) continue;
      const root = forest.find(node);
      if (groupOf[root] < 0) groupOf[root] = groups.push({ rows: [], pairs: 0, weakest: 0 }) - 1;
      groups[groupOf[root]].rows.push(node);
    }
    for (let p = 0; p < n; p++) {
      const group = groups[groupOf[forest.find(lefts[p])]];
      group.pairs++;
      group.weakest = p;
    }
    return groups;
  }

  // Gives the pairs of a group, weakest first.
  function pairsOfGroup(group, { n, forest }) {
    const found = [], root = forest.find(group.rows[0]);
    for (let p = n - 1; p >= 0; p--) if (forest.find(lefts[p]) === root) found.push(p);
    return found;
  }

  // Gives the pairs without which the group of `first` would fall apart (bridges, by depth-first search).
  function bridgesOfGroup(first, n) {
    const found = new Set(), seen = new Map([[first, 0]]), low = new Map([[first, 0]]);
    const stack = [{ node: first, by: -1, e: starts[first] }];
    while (stack.length) {
      const top = stack[stack.length - 1];
      if (top.e < starts[top.node + 1] && edges[top.e] < n) {
        const p = edges[top.e++];
        if (p === top.by) continue;
        const other = lefts[p] === top.node ? rights[p] : lefts[p];
        if (seen.has(other)) {
          low.set(top.node, Math.min(low.get(top.node), seen.get(other)));
        } else {
          low.set(other, seen.size);
          seen.set(other, seen.size);
          stack.push({ node: other, by: p, e: starts[other] });
        }
        continue;
      }
      stack.pop();
      if (!stack.length) break;
      const above = stack[stack.length - 1].node;
      low.set(above, Math.min(low.get(above), low.get(top.node)));
      if (low.get(top.node) > seen.get(above)) found.add(top.by);
    }
    return found;
  }

  // ---- Marks: those of the file, changed by those of this browser ----

  const LABELS = ["yes", "no", "unsure"];
  const marks = new Map();
  const changes = new Map();
  const undoable = [];
  let storage = null;
  let unsaved = false;
  let placesOfIds = null;

  // Two rows of one table are the same pair in both orders.
  function keyOf(left, right) {
    const ids = [String(left), String(right)];
    if (single) ids.sort();
    return JSON.stringify(ids);
  }
  const keyOfPair = (p) => keyOf(idOf(lefts[p]), idOf(rights[p]));
  const markOf = (p) => (marks.size ? marks.get(keyOfPair(p))?.label : undefined);

  // Finds the best pair of two rows that are told by their ids; -1 where there is none.
  function pairOfIds(left, right) {
    if (!placesOfIds) placesOfIds = [leftTable, rightTable].map((table) => new Map(table.ids.map((id, place) => [String(id), place])));
    const x = placesOfIds[0].get(String(left)), y = placesOfIds[1].get(String(right));
    if (x === undefined || y === undefined) return -1;
    for (let e = starts[x]; e < starts[x + 1]; e++) {
      if (lefts[edges[e]] + rights[edges[e]] === x + y + offset) return edges[e];
    }
    return -1;
  }

  function setMark(left, right, label, pair = pairOfIds(left, right)) {
    const key = keyOf(left, right);
    if (label) marks.set(key, { left, right, label, pair });
    else marks.delete(key);
    changes.set(key, [left, right, label]);
  }

  // The key of the storage tells title, question and pairs: marks never move to other rows.
  function storageKey() {
    const { left, right, score } = data.pairs;
    const text = [data.title, data.question, left, right, score, ...data.tables.map((table) => table.ids)].join("\n");
    let hash = 2166136261;
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
    return "simjoin-report:" + (hash >>> 0).toString(16);
  }

  function readStorage() {
    for (const [left, right, label] of JSON.parse(localStorage.getItem(storage) || "[]")) {
      setMark(left, right, LABELS.includes(label) ? label : null);
    }
  }

  function loadMarks() {
    for (const [left, right, label] of data.labels) {
      if (LABELS.includes(label)) setMark(left, right, label);
    }
    changes.clear();
    try {
      storage = storageKey();
      localStorage.setItem(storage + ":try", "");
      localStorage.removeItem(storage + ":try");
      readStorage();
    } catch {
      storage = null;
    }
    tellStorage();
  }

  function saveMarks() {
    unsaved = true;
    try {
      if (storage) {
        localStorage.setItem(storage, JSON.stringify([...changes.values()]));
        unsaved = false;
      }
    } catch {
      storage = null;
      tellStorage();
    }
  }

  function tellStorage() {
    $("kept-where").textContent = storage ? "Marks are kept in this browser, for this result only."
      : "This browser keeps no marks for this page: they are lost when it closes. Export them before.";
  }

  // Marks pairs, all undone at once, and gives how many changed.
  function apply(list) {
    const before = [];
    for (const [left, right, label, pair] of list) {
      const old = marks.get(keyOf(left, right))?.label ?? null;
      if (old === label) continue;
      before.push([left, right, old]);
      setMark(left, right, label, pair);
    }
    if (before.length) undoable.push(before);
    afterMarks();
    return before.length;
  }

  function undo() {
    const before = undoable.pop();
    if (!before) return;
    for (const [left, right, label] of before) setMark(left, right, label);
    afterMarks();
    const [left, right, label] = before[0];
    const key = keyOf(left, right);
    const card = cards().find((shown) => keyOfPair(+shown.dataset.pair) === key);
    if (card) focusOn(card);
    announce(`Undone: ${before.length > 1 ? counted(before.length, "mark") : `${left} and ${right}, ${label || "unmarked"}`}`);
  }

  function afterMarks() {
    saveMarks();
    for (const card of document.querySelectorAll("[data-pair]")) paintMark(card);
    showProgress();
    showEstimate();
  }

  function showProgress() {
    const counts = { yes: 0, no: 0, unsure: 0 };
    let others = 0;
    for (const mark of marks.values()) {
      counts[mark.label]++;
      if (mark.pair < 0) others++;
    }
    $("progress").textContent = marks.size
      ? `${number(marks.size)} marked: ${LABELS.map((label) => `${number(counts[label])} ${label}`).join(", ")}` +
        (others ? ` (${number(others)} not among these pairs)` : "")
      : "Nothing is marked yet";
    $("undo").disabled = !undoable.length;
    $("export").disabled = !marks.size;
  }

  // ---- CSV ----

  const quoted = (value) => (/[",\r\n]|^\s|\s$|^$/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const fileName = (title) => `${title.replace(/[/\\:*?"<>|\u0000-\u001f]/g, "_")}.labels.csv`;

  function exportMarks() {
    // What tells the rows, for those who read the file.
    const told = data.told_by ?? "row";
    const lines = ["left,right,label,told_by"];
    for (const mark of marks.values()) lines.push([mark.left, mark.right, mark.label, told].map((value) => quoted(String(value))).join(","));
    const link = el("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv;charset=utf-8" }));
    link.download = fileName(data.title);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    unsaved = false;
    announce(`${counted(marks.size, "mark")} exported to ${link.download}`);
  }

  // Reads the records of a CSV text.
  function parseCsv(text) {
    const records = [];
    let record = [], field = "", inside = false;
    const endField = () => { record.push(field); field = ""; };
    const endRecord = () => { endField(); if (record.length > 1 || record[0] !== "") records.push(record); record = []; };
    text = text.replace(/^\ufeff/, "");
    for (let i = 0; i < text.length; i++) {
      const c = text[i];
      if (inside) {
        if (c !== '"') field += c;
        else if (text[i + 1] === '"') field += text[++i];
        else inside = false;
      } else if (c === '"' && field === "") inside = true;
      else if (c === ",") endField();
      else if (c === "\n") endRecord();
      else if (c !== "\r") field += c;
    }
    if (field !== "" || record.length) endRecord();
    return records;
  }

  function importMarks(text) {
    const [header = [], ...records] = parseCsv(text);
    const places = ["left", "right", "label"].map((name) => header.findIndex((field) => field.trim().toLowerCase() === name));
    if (places.includes(-1)) return showNews("This file has no columns left, right and label: nothing was imported");
    const list = records.map((record) => places.map((place) => record[place] ?? ""))
      .map(([left, right, label]) => [left, right, label.trim().toLowerCase()]);
    const known = list.filter((entry) => LABELS.includes(entry[2]));
    const changed = apply(known);
    const skipped = list.length - known.length;
    showNews(`${counted(known.length, "mark")} read, ${number(changed)} of them new or changed` +
      (skipped ? `; ${counted(skipped, "line")} without yes, no or unsure skipped` : ""));
  }

  // Says something for all to see, until the next mark.
  function showNews(text) {
    $("progress").textContent = text;
    announce(text);
  }

  let announcing = 0;
  function announce(text, delay = 50) {
    clearTimeout(announcing);
    announcing = setTimeout(() => { $("live").textContent = text; }, delay);
  }

  // ---- The threshold: slider, histogram, figures ----

  const state = { threshold: data.at, n: 0, forest: null, drops: null, dropped: 0, groups: null, tab: "pairs" };
  const low = Math.min(data.weakest, best);
  const high = Math.max(data.weakest, best);
  const span = high - low;
  // A step of the slider is the power of ten that makes 200 to 2,000 of them.
  const step = integers ? 1 : 10 ** Math.floor(Math.log10((span || 1) / 200));
  const digits = integers ? 0 : Math.max(1, Math.min(8, Math.round(-Math.log10(step))));
  const tidy = (value) => String(Number(value.toFixed(10)));
  const scored = (value) => value.toFixed(integers ? 0 : digits + 1);
  const across = (value) => (span ? Math.max(0, Math.min(1, (value - low) / span)) : 0);
  const bins = [];

  // Gives 1, 2 or 5 times a power of ten so that at most `most` of them fill the span.
  function niceWidth(most) {
    const power = 10 ** Math.floor(Math.log10((span || 1) / most));
    const width = [1, 2, 5, 10].map((times) => times * power).find((tried) => span / tried <= most + 1e-9);
    return integers ? Math.max(1, Math.round(width)) : width;
  }

  function makeHistogram() {
    const unit = niceWidth(50);
    const discrete = integers && unit === 1;
    const count = discrete ? span + 1 : Math.max(1, Math.round(span / unit));
    const width = discrete ? 1 : span / count;
    for (let i = 0; i < count; i++) bins.push({ first: total, count: 0 });
    for (let p = 0; p < total; p++) {
      const place = width ? Math.floor((scores[p] - low) / width + 1e-9) : 0;
      const bin = bins[Math.max(0, Math.min(count - 1, place))];
      if (!bin.count++) bin.first = p;
    }
    const tallest = bins.reduce((most, bin) => Math.max(most, bin.count), 1);
    const drawn = discrete ? Math.min(50, 800 / Math.max(1, span)) : 1000 / count;
    bins.forEach((bin, i) => {
      bin.scale = 100 / tallest;
      const x = discrete ? 1000 * across(low + i) - drawn / 2 : i * drawn;
      const from = low + i * width;
      const height = bin.count ? Math.max(1.2, bin.count * bin.scale) : 0;
      const size = { x: x + drawn * 0.06, width: drawn * 0.88 };
      const all = svg("rect", { class: "all", ...size, y: 100 - height, height });
      bin.bar = svg("rect", { class: "in", ...size, y: 100, height: 0 });
      const title = svg("title", {});
      title.textContent = `${discrete ? tidy(from) : `${tidy(from)} to ${tidy(from + width)}`}: ${counted(bin.count, "pair")}`;
      const group = svg("g", {});
      group.append(title, all, bin.bar);
      $("histogram").append(group);
    });
  }

  function makeAxis() {
    const width = niceWidth(5);
    const ticks = $("ticks");
    const put = (value, text, className) => {
      const tick = el("span", className, text);
      tick.style.left = 100 * across(value) + "%";
      ticks.append(tick);
    };
    for (let i = Math.ceil(low / width - 1e-9); i * width <= high + 1e-9 * width; i++) put(i * width, tidy(i * width), "");
    if (suggested !== null) {
      ticks.classList.add("two");
      const place = across(suggested);
      put(suggested, place > 0.5 ? `suggested ▲` : `▲ suggested`, place > 0.5 ? "suggested end" : "suggested start");
    }
    // The ends of the slider are whole steps; what it says is kept within those of the scores.
    const [min, max] = [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)].map((times) => tidy(times * step));
    Object.assign($("slider"), { min, max, step: tidy(step), disabled: !span || !total });
    $("exact").disabled = !total;
    $("exact-label").textContent = data.distance ? "Distance at most" : "Score at least";
    $("steps-at").textContent = data.distance ? "At most" : "At least";
  }

  function sayWhy() {
    $("back").textContent = `As asked, ${tidy(data.at)}`;
    if (suggested === null) return;
    $("asked").textContent = `Suggested, ${tidy(suggested)}`;
    $("why").textContent = `Suggested is ${data.distance ? "at most" : "at least"} ${tidy(suggested)}: ${data.why.replace(/\.$/, "")}. ` +
      `The slider starts at the threshold asked for, ${tidy(data.at)}.`;
    $("why").hidden = false;
  }

  // Counts pairs and groups at each of the thresholds, from the strictest on, in one pass.
  function makeSteps() {
    const forest = new Forest();
    const body = $("steps").tBodies[0];
    const sorted = [...data.steps].sort((x, y) => (data.distance ? x - y : y - x));
    for (const threshold of sorted) {
      const before = forest.pairs;
      forest.addUpTo(pairsWithin(threshold));
      const figures = [forest.pairs, forest.pairs - before, forest.groups, forest.largest, forest.rows];
      const head = el("th", "", button(tidy(threshold), () => {}, "as threshold"));
      head.scope = "row";
      const row = el("tr", "", head, ...figures.map((figure) => el("td", "", number(figure))));
      row.dataset.threshold = threshold;
      row.addEventListener("click", () => setThreshold(threshold));
      body.append(row);
    }
    $("steps").hidden = !sorted.length;
  }

  const figures = {};
  function makeFigures() {
    const ofTables = single
      ? [["kept", "Rows kept"], ["dropped", "Rows dropped"]]
      : [["left", `Matched of ${leftTable.name}`], ["right", `Matched of ${rightTable.name}`]];
    for (const [name, text] of [["pairs", "Pairs"], ["groups", "Groups"], ["rows", "Rows in groups"], ...ofTables,
      ["precision", "Precision, by marks"], ["missed", "Missed, by marks"]]) {
      const value = el("dd", "value", "–"), note = el("dd", "note");
      $("figures").append(el("div", "", el("dt", "", text), value, note));
      figures[name] = (figure, more) => { value.textContent = figure; note.textContent = more; };
    }
  }

  function recount() {
    state.n = pairsWithin(state.threshold);
    state.forest = new Forest().addUpTo(state.n);
    state.groups = null;
    const { n, forest } = state;
    figures.pairs(number(n), `of ${number(total + data.left_out)} found`);
    figures.groups(number(forest.groups), forest.largest ? `the largest has ${counted(forest.largest, "row")}` : "");
    const rows = data.tables.reduce((sum, table) => sum + table.total, 0);
    figures.rows(number(forest.rows), `${share(forest.rows, rows)} of ${number(rows)}`);
    if (single) {
      Object.assign(state, dropsAt(n));
      figures.kept(number(leftTable.total - state.dropped), `of ${counted(leftTable.total, "row")}`);
      figures.dropped(number(state.dropped), `${share(state.dropped, leftTable.total)}, if duplicates go`);
    } else {
      const matched = [0, 0];
      for (let node = 0; node < nodes; node++) if (isPaired(node, n)) matched[node < offset ? 0 : 1]++;
      figures.left(number(matched[0]), `${share(matched[0], leftTable.total)} of ${counted(leftTable.total, "row")}`);
      figures.right(number(matched[1]), `${share(matched[1], rightTable.total)} of ${counted(rightTable.total, "row")}`);
    }
    showEstimate();
  }

  // Says what the marks tell of the threshold.
  function showEstimate() {
    const within = { yes: 0, no: 0, unsure: 0 };
    let missed = 0, yes = 0;
    for (const mark of marks.values()) {
      const isWithin = mark.pair >= 0 && mark.pair < state.n;
      if (isWithin) within[mark.label]++;
      if (mark.label !== "yes") continue;
      yes++;
      if (!isWithin) missed++;
    }
    const decided = within.yes + within.no;
    const unsure = within.unsure ? `, ${number(within.unsure)} unsure` : "";
    figures.precision(decided ? share(within.yes, decided) : "–", decided
      ? `${number(within.yes)} yes of ${number(decided)} marked within${unsure}`
      : "mark pairs within the threshold");
    figures.missed(yes ? number(missed) : "–", yes ? `of ${number(yes)} marked yes are beyond` : "mark pairs beyond the threshold");
  }

  function paintThreshold() {
    const { threshold, n } = state;
    for (const bin of bins) {
      const inside = Math.max(0, Math.min(bin.count, n - bin.first));
      const height = inside ? Math.max(1.2, inside * bin.scale) : 0;
      bin.bar.setAttribute("y", 100 - height);
      bin.bar.setAttribute("height", height);
    }
    $("line").style.left = 100 * across(threshold) + "%";
    const words = `${data.distance ? "at most" : "at least"} ${tidy(threshold)}`;
    $("slider").setAttribute("aria-valuetext", `${words}: ${counted(n, "pair")}, ${counted(state.forest.groups, "group")}`);
    $("histogram").setAttribute("aria-label", `Distribution of ${number(total)} scores from ${tidy(low)} to ${tidy(high)}; ` +
      `${number(n)} are within the threshold, ${words}. The table below has the counts.`);
    for (const row of $("steps").tBodies[0].rows) {
      if (Number(row.dataset.threshold) === threshold) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
    $("back").hidden = threshold === data.at;
    $("asked").hidden = suggested === null || threshold === suggested;
  }

  let framed = 0, listed = 0;
  // Recounts in the next frame; the list of pairs follows when the slider rests.
  function setThreshold(threshold, from) {
    state.threshold = threshold;
    if (from !== "slider") $("slider").value = threshold;
    if (from !== "exact") $("exact").value = tidy(threshold);
    if (!framed) {
      framed = requestAnimationFrame(() => {
        framed = 0;
        recount();
        paintThreshold();
        announce(`${counted(state.n, "pair")} in ${counted(state.forest.groups, "group")}, ${data.distance ? "at most" : "at least"} ${tidy(state.threshold)}`, 700);
      });
    }
    clearTimeout(listed);
    listed = setTimeout(() => { pages.pairs.stale = pages.groups.stale = true; showTab(state.tab); }, 150);
  }

  // ---- Differences of two texts ----

  const TOKEN = /[\p{L}\p{M}\p{N}]+|\s+|[^\p{L}\p{M}\p{N}\s]/gu;
  const CHARS_UP_TO = 2000;
  const SHOWN_UP_TO = 20000;
  const MOST_CELLS = 250000;
  const SAME = 0, TOUCHED = 1, CHANGED = 2;

  // Says which items of both lists are common, in order: by LCS, or by membership where that is too long.
  function common(x, y) {
    let from = 0, endX = x.length, endY = y.length;
    while (from < endX && from < endY && x[from] === y[from]) from++;
    while (endX > from && endY > from && x[endX - 1] === y[endY - 1]) { endX--; endY--; }
    const inX = new Uint8Array(x.length).fill(1).fill(0, from, endX);
    const inY = new Uint8Array(y.length).fill(1).fill(0, from, endY);
    const wide = endY - from + 1, tall = endX - from + 1;
    if (wide * tall > MOST_CELLS) {
      const ofX = new Set(x.slice(from, endX)), ofY = new Set(y.slice(from, endY));
      for (let i = from; i < endX; i++) inX[i] = ofY.has(x[i]);
      for (let j = from; j < endY; j++) inY[j] = ofX.has(y[j]);
      return { inX, inY, ordered: false };
    }
    const length = new Uint16Array(wide * tall);
    for (let i = tall - 2; i >= 0; i--) {
      for (let j = wide - 2; j >= 0; j--) {
        length[i * wide + j] = x[from + i] === y[from + j]
          ? length[(i + 1) * wide + j + 1] + 1
          : Math.max(length[(i + 1) * wide + j], length[i * wide + j + 1]);
      }
    }
    for (let i = 0, j = 0; i < tall - 1 && j < wide - 1;) {
      if (x[from + i] === y[from + j]) inX[from + i++] = inY[from + j++] = 1;
      else if (length[(i + 1) * wide + j] >= length[i * wide + j + 1]) i++;
      else j++;
    }
    return { inX, inY, ordered: true };
  }

  // Joins neighbours of one kind: gives [text, kind] of each run.
  function runs(items, isCommon, kindOfCommon) {
    const found = [];
    items.forEach((item, i) => {
      const kind = isCommon[i] ? kindOfCommon : CHANGED;
      if (found.length && found[found.length - 1][1] === kind) found[found.length - 1][0] += item;
      else found.push([item, kind]);
    });
    return found;
  }

  // Compares the characters of changed tokens; where few are common, all are changed.
  function compareChars(x, y) {
    const ofX = Array.from(x), ofY = Array.from(y);
    const { inX, inY, ordered } = common(ofX, ofY);
    const same = inX.reduce((sum, flag) => sum + flag, 0);
    if (!ordered || 2 * same < Math.max(ofX.length, ofY.length)) return [[[x, CHANGED]], [[y, CHANGED]]];
    return [runs(ofX, inX, TOUCHED), runs(ofY, inY, TOUCHED)];
  }

  // Gives the runs of both texts: tokens first, then characters inside of changed tokens.
  function compareTexts(x, y) {
    if (x === y) return [[[x, SAME]], [[y, SAME]]];
    const ofX = x.match(TOKEN) || [], ofY = y.match(TOKEN) || [];
    const { inX, inY, ordered } = common(ofX, ofY);
    if (!ordered || Math.max(x.length, y.length) > CHARS_UP_TO) return [runs(ofX, inX, SAME), runs(ofY, inY, SAME)];
    const outX = [], outY = [];
    let i = 0, j = 0;
    while (i < ofX.length || j < ofY.length) {
      let oldX = "", oldY = "", same = "";
      while (i < ofX.length && !inX[i]) oldX += ofX[i++];
      while (j < ofY.length && !inY[j]) oldY += ofY[j++];
      const [runsX, runsY] = oldX && oldY ? compareChars(oldX, oldY) : [[[oldX, CHANGED]], [[oldY, CHANGED]]];
      outX.push(...runsX);
      outY.push(...runsY);
      for (; i < ofX.length && j < ofY.length && inX[i] && inY[j]; i++, j++) same += ofX[i];
      outX.push([same, SAME]);
      outY.push([same, SAME]);
    }
    return [outX, outY];
  }

  // Shows a cell: NULL and the empty text are told apart from texts.
  function shown(value, most = SHOWN_UP_TO) {
    if (value === null || value === undefined) return el("span", "null", "NULL");
    const text = String(value);
    if (text === "") return el("span", "null", "empty");
    return document.createTextNode(text.length > most ? text.slice(0, most) + "…" : text);
  }

  function fillCompared(x, y, intoX, intoY) {
    const plain = (value) => value === null || value === undefined || value === "";
    if (plain(x) || plain(y)) {
      for (const [value, into] of [[x, intoX], [y, intoY]]) into.append(plain(value) || x === y ? shown(value) : el("mark", "changed", shown(value)));
      return;
    }
    const texts = [String(x), String(y)];
    const all = compareTexts(texts[0].slice(0, SHOWN_UP_TO), texts[1].slice(0, SHOWN_UP_TO));
    [intoX, intoY].forEach((into, i) => {
      for (const [text, kind] of all[i]) {
        if (text) into.append(kind === SAME ? text : el("mark", kind === CHANGED ? "changed" : "", text));
      }
      const more = texts[i].length - SHOWN_UP_TO;
      if (more > 0) into.append("… ", el("span", "null", `${counted(more, "character")} more`));
      if (texts[i].length > CHARS_UP_TO) { into.classList.add("long"); into.tabIndex = 0; }
    });
  }

  // ---- A pair ----

  const others = new Map(data.tables.map((table) => [table, [...table.columns.keys()].filter((c) => !table.compared.includes(c))]));
  const partNames = Object.keys(data.pairs.parts || {});
  const partTops = partNames.map((name) => data.pairs.parts[name].reduce((top, part) => Math.max(top, part ?? 0), data.distance ? 1e-9 : 1));

  // Shows the compared columns, the two values of each one below the other.
  function comparedValues(p) {
    const list = el("dl", "values");
    const ofLeft = tableOf(lefts[p]), ofRight = tableOf(rights[p]);
    ofLeft.compared.forEach((column, i) => {
      const other = ofRight.compared[i] ?? column;
      const names = [ofLeft.columns[column], ofRight.columns[other]];
      const x = el("dd"), y = el("dd", "last");
      fillCompared(cellOf(lefts[p], column), cellOf(rights[p], other), x, y);
      list.append(el("dt", "", names[0] === names[1] ? names[0] : names.join(" / ")), x, y);
    });
    return list;
  }

  // Shows id and other columns of a row in small print, marked where the partner has another value.
  function otherValues(node, partner) {
    const table = tableOf(node);
    const line = el("p", "rest", el("span", "name", `${single ? "" : `${table.name} `}${data.id_name ?? (single ? "row" : "")} `, shown(idOf(node))));
    for (const column of others.get(table)) {
      const value = cellOf(node, column);
      if (String(value) === String(idOf(node))) continue;
      const name = table.columns[column];
      const there = partner === undefined ? -1 : single ? column : tableOf(partner).columns.indexOf(name);
      const differs = there >= 0 && cellOf(partner, there) !== value;
      line.append(el("span", "", el("b", "", name + " "), el(differs ? "mark" : "i", "", shown(value, 160))));
    }
    return line;
  }

  function partBars(p) {
    const list = el("ul", "parts");
    partNames.forEach((name, i) => {
      const part = data.pairs.parts[name][p];
      const filled = el("span");
      filled.style.width = 100 * Math.max(0, part ?? 0) / partTops[i] + "%";
      const meter = el("span", "meter", filled);
      meter.setAttribute("aria-hidden", "true");
      list.append(el("li", "", name, meter, part === null || part === undefined ? "–" : part.toFixed(Number.isInteger(partTops[i]) && partTops[i] > 1 ? 0 : 3)));
    });
    return list;
  }

  function markButtons() {
    const buttons = ["Yes", "No", "Unsure"].map((text) => {
      const made = button(text, (event) => {
        const card = event.currentTarget.closest("[data-pair]");
        const label = text.toLowerCase();
        mark(card, markOf(+card.dataset.pair) === label ? null : label);
      });
      made.dataset.label = text.toLowerCase();
      return made;
    });
    const group = el("div", "marks", ...buttons);
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", "The same?");
    return group;
  }

  function pairCard(p, bridge) {
    const within = p < state.n;
    const about = el("div", "about", el("span", "score", scored(scores[p])), el("span", "side", within ? "within" : "beyond"));
    about.firstChild.title = String(scores[p]);
    if (bridge) about.append(el("span", "bridge", "holds the group together"));
    const body = el("div", "", comparedValues(p), otherValues(lefts[p], rights[p]), otherValues(rights[p], lefts[p]));
    if (partNames.length) body.append(partBars(p));
    const card = el("article", within ? "card within" : "card", about, body, markButtons());
    card.dataset.pair = p;
    if (bridge) card.dataset.bridge = "";
    card.tabIndex = -1;
    paintMark(card);
    return card;
  }

  // Shows the mark of a pair on its card.
  function paintMark(card) {
    const p = +card.dataset.pair, label = markOf(p);
    for (const made of card.querySelectorAll(".marks button")) made.setAttribute("aria-pressed", String(made.dataset.label === label));
    card.setAttribute("aria-label", `Pair of ${idOf(lefts[p])} and ${idOf(rights[p])}, score ${scored(scores[p])}, ` +
      `${p < state.n ? "within" : "beyond"} the threshold, ${label ? `marked ${label}` : "unmarked"}`);
  }

  // ---- Lists, searched and paged ----

  const pages = {
    pairs: { size: 25, page: 0, items: [], stale: true, select: selectPairs, show: (p) => el("li", "", pairCard(p)), one: "pair" },
    groups: { size: 20, page: 0, items: [], stale: true, select: selectGroups, show: showGroup, one: "group" },
  };
  const texts = [];

  // Gives which rows have the text in a cell; null where there is nothing to search.
  function hitsOf(name) {
    const wanted = $(name + "-search").value.trim().toLowerCase();
    if (!wanted) return null;
    const hits = new Uint8Array(nodes);
    for (let node = 0; node < nodes; node++) {
      texts[node] ??= [idOf(node), ...tableOf(node).cells.map((column) => column[placeOf(node)] ?? "")].join("\n").toLowerCase();
      hits[node] = texts[node].includes(wanted);
    }
    return hits;
  }

  // Orders the pairs by their distance from the threshold: both sides are sorted, so they are merged.
  function byBorder() {
    const order = new Int32Array(total);
    let inside = state.n - 1, outside = state.n;
    for (let i = 0; i < total; i++) {
      const takeInside = outside >= total ||
        (inside >= 0 && Math.abs(scores[inside] - state.threshold) <= Math.abs(scores[outside] - state.threshold));
      order[i] = takeInside ? inside-- : outside++;
    }
    return order;
  }

  function selectPairs() {
    const by = $("pairs-order").value, mark = $("pairs-mark").value, side = $("pairs-side").value;
    const hits = hitsOf("pairs");
    const order = by === "border" ? byBorder() : Int32Array.from({ length: total }, (_, i) => (by === "best" ? i : total - 1 - i));
    if (!hits && !mark && !side) return order;
    return order.filter((p) => {
      if (side && (p < state.n) !== (side === "within")) return false;
      if (hits && !hits[lefts[p]] && !hits[rights[p]]) return false;
      const label = mark ? markOf(p) : undefined;
      return !mark || (mark === "none" ? !label : mark === "any" ? label : label === mark);
    });
  }

  function selectGroups() {
    state.groups ??= groupsAt(state.n, state.forest);
    const by = $("groups-order").value, hits = hitsOf("groups");
    const found = hits ? state.groups.filter((group) => group.rows.some((node) => hits[node])) : [...state.groups];
    if (by === "size") found.sort((x, y) => y.rows.length - x.rows.length);
    if (by === "weakest") found.sort((x, y) => y.weakest - x.weakest);
    return found;
  }

  // Says in words why a list is empty, and what to do.
  function emptyText(name) {
    const weaker = data.distance ? "raise" : "lower";
    if (!total) return `No pairs were found. To find more, ${weaker} the threshold (${tidy(data.weakest)}) and run the command again.`;
    if (name === "groups" && !state.n) return `No pairs are within ${tidy(state.threshold)}: ${weaker} the threshold to see groups.`;
    return `No ${name} match: change the search${name === "pairs" ? " or the filters" : ""}.`;
  }

  function showList(name) {
    const list = pages[name];
    if (list.stale) {
      list.items = list.select();
      list.page = 0;
      list.stale = false;
    }
    const from = list.page * list.size, to = Math.min(from + list.size, list.items.length);
    const shownItems = [];
    for (let i = from; i < to; i++) shownItems.push(list.show(list.items[i]));
    if (!shownItems.length) shownItems.push(el("li", "empty", emptyText(name)));
    $(name + "-list").replaceChildren(...shownItems);
    const all = counted(list.items.length, list.one);
    $(name + "-shown").textContent = list.items.length ? `${number(from + 1)} to ${number(to)} of ${all}` : `0 ${list.one}s`;
    showPager(name);
    current = null;
    const first = cards()[0];
    if (first) first.tabIndex = 0;
  }

  function showPager(name) {
    const list = pages[name], last = Math.max(0, Math.ceil(list.items.length / list.size) - 1);
    const go = el("input");
    Object.assign(go, { type: "number", min: 1, max: last + 1, value: list.page + 1 });
    go.setAttribute("aria-label", "Page");
    go.addEventListener("change", () => turn(name, Math.round(Number(go.value) || 1) - 1));
    const back = button("Previous", () => turn(name, list.page - 1), "page");
    const on = button("Next", () => turn(name, list.page + 1), "page");
    back.disabled = list.page === 0;
    on.disabled = list.page === last;
    $(name + "-pager").replaceChildren(back, el("span", "", "Page ", go, ` of ${number(last + 1)}`), on);
    $(name + "-pager").hidden = last === 0;
  }

  // Goes to a page and to the first pair or group of it, or the last one.
  function turn(name, page, toLast) {
    const list = pages[name], last = Math.max(0, Math.ceil(list.items.length / list.size) - 1);
    const to = Math.max(0, Math.min(last, page));
    $(name + "-pager").querySelector("input").value = to + 1;
    if (to === list.page) return;
    list.page = to;
    showList(name);
    const items = $(name + "-list").querySelectorAll(name === "pairs" ? "[data-pair]" : ".group");
    if (items.length) focusOn(items[toLast ? items.length - 1 : 0]);
    if (!toLast) $("panel-" + name).querySelector(".shown").scrollIntoView({ block: "nearest" });
  }

  function refreshList(name) {
    pages[name].stale = true;
    showList(name);
    announce($(name + "-shown").textContent, 400);
  }

  // Shows a tab: only its list is in the document.
  function showTab(name) {
    state.tab = name;
    for (const other of ["pairs", "groups"]) {
      const isShown = other === name;
      $("panel-" + other).hidden = !isShown;
      $("tab-" + other).setAttribute("aria-selected", String(isShown));
      $("tab-" + other).tabIndex = isShown ? 0 : -1;
      if (!isShown) $(other + "-list").replaceChildren();
    }
    showList(name);
  }

  // ---- A group ----

  const ROWS_AT_FIRST = 200;
  const REASONS_AT_FIRST = 100;

  // Says whether a row of the one table is kept, or for which row it is dropped; of two tables, which one it is of.
  function fateOf(node) {
    if (!single) return el("span", "fate", tableOf(node).name);
    const p = state.drops[node];
    if (p < 0) return el("span", "fate kept", "kept");
    const other = lefts[p] === node ? rights[p] : lefts[p];
    return el("span", "fate", "dropped for ", shown(idOf(other), 40));
  }

  function groupRow(node) {
    const table = tableOf(node);
    const main = el("p", "main-values", ...table.compared.map((column) => el("span", "", shown(cellOf(node, column), 400))));
    return el("li", "", fateOf(node), el("div", "", main, otherValues(node)));
  }

  // Adds items to a list up to a number, and a button that adds more.
  function fillMore(list, items, show, most, next) {
    const from = list.children.length;
    list.append(...items.slice(from, most).map(show));
    if (items.length <= most) return null;
    const text = next === Infinity ? `Show all ${number(items.length)} rows` : `Show more of ${number(items.length)} pairs`;
    const more = button(text, () => {
      const again = fillMore(list, items, show, most + next, next);
      if (again) more.replaceWith(again);
      else more.remove();
      (again || list.closest(".group")).focus({ preventScroll: true });
    });
    return more;
  }

  function showGroup(group) {
    const heading = el("h3", "", `Group of ${counted(group.rows.length, "row")}`);
    const facts = el("p", "facts", `${counted(group.pairs, "pair")}, weakest link ${scored(scores[group.weakest])}`);
    const rows = el("ol", "rows");
    const more = fillMore(rows, group.rows, groupRow, ROWS_AT_FIRST, Infinity);
    const reasons = el("div", "reasons");
    reasons.hidden = true;
    const open = button("Why these rows belong together", () => {
      reasons.hidden = !reasons.hidden;
      open.setAttribute("aria-expanded", String(!reasons.hidden));
      if (!reasons.firstChild) fillReasons(group, reasons);
    });
    open.setAttribute("aria-expanded", "false");
    const made = el("article", "group", heading, facts, rows, ...(more ? [more] : []), open, reasons);
    made.tabIndex = -1;
    made.setAttribute("aria-label", heading.textContent);
    return el("li", "", made);
  }

  // Shows the pairs of a group, weakest first; those that hold it together are marked.
  function fillReasons(group, into) {
    const pairs = pairsOfGroup(group, state), bridges = bridgesOfGroup(group.rows[0], state.n);
    into.append(el("p", "", bridges.size
      ? `Without any one of the ${counted(bridges.size, "pair")} marked “holds the group together” this group would fall apart.`
      : "No single pair holds this group together: each row is reached in more than one way."));
    const list = el("ol", "list");
    const more = fillMore(list, pairs, (p) => el("li", "", pairCard(p, bridges.has(p))), REASONS_AT_FIRST, REASONS_AT_FIRST);
    into.append(list, ...(more ? [more] : []));
  }

  // ---- Keys and focus ----

  let current = null;
  const cards = () => [...$(state.tab + "-list").querySelectorAll("[data-pair]")].filter((card) => !card.closest("[hidden]"));

  function focusOn(item) {
    item.focus({ preventScroll: true });
    const box = item.getBoundingClientRect();
    const bottom = document.querySelector(".bar").getBoundingClientRect().top;
    if (box.top < 0 || box.bottom > bottom) item.scrollIntoView({ block: box.height > bottom ? "start" : "nearest" });
  }

  // Remembers the pair that has the focus, also when the focus goes elsewhere.
  function onFocus(event) {
    const card = event.target.closest?.("[data-pair]");
    if (!card || card === current) return;
    const before = document.querySelector(".card.current") || cards().find((other) => other.tabIndex === 0);
    if (before) { before.classList.remove("current"); before.tabIndex = -1; }
    card.classList.add("current");
    card.tabIndex = 0;
    current = card;
  }

  // Goes to the next or previous pair, over the ends of pages.
  function move(by) {
    const all = cards(), at = current ? all.indexOf(current) : -1;
    const next = at < 0 ? all[0] : all[at + by];
    if (next) focusOn(next);
    else if (state.tab === "pairs") turn("pairs", pages.pairs.page + by, by < 0);
  }

  function mark(card, label) {
    const p = +card.dataset.pair;
    apply([[idOf(lefts[p]), idOf(rights[p]), label, p]]);
    announce(`${label ? `Marked ${label}` : "Cleared"}. ${$("progress").textContent}`);
    if (!label) return;
    if (card !== current) onFocus({ target: card });
    move(1);
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
    const target = event.target, key = event.key;
    if (target.matches("input[type=search]")) {
      if (key === "Enter") event.preventDefault();
      if (key === "Enter" || (key === "Escape" && !target.value)) { searchNow(); move(0); }
      return;
    }
    if (target.matches("input:not([type=range]):not([type=checkbox]), select, textarea") || !$("keys-on").checked) return;
    const inList = target.closest("[data-pair]") && !target.matches("dd.long");
    const label = { y: "yes", n: "no", u: "unsure", x: null }[key];
    if (key === "j" || (key === "ArrowDown" && inList)) move(1);
    else if (key === "k" || (key === "ArrowUp" && inList)) move(-1);
    else if (label !== undefined) {
      if (current?.isConnected) mark(current, label);
      else move(1);
    } else if (key === "z") undo();
    else if (key === "[") turn(state.tab, pages[state.tab].page - 1);
    else if (key === "]") turn(state.tab, pages[state.tab].page + 1);
    else if (key === "/") $(state.tab + "-search").select();
    else if (key === "?") $("help").showModal();
    else return;
    event.preventDefault();
  }

  let searching = 0;
  function searchNow() {
    if (!searching) return;
    clearTimeout(searching);
    searching = 0;
    refreshList(state.tab);
  }

  function onTabKey(event) {
    const to = { ArrowLeft: "pairs", ArrowRight: "groups", Home: "pairs", End: "groups" }[event.key];
    if (!to) return;
    event.preventDefault();
    showTab(to);
    $("tab-" + to).focus();
  }

  async function copy(event) {
    const from = $(event.currentTarget.dataset.copy);
    try {
      await navigator.clipboard.writeText(from.textContent);
    } catch {
      getSelection().selectAllChildren(from);
      document.execCommand("copy");
    }
    announce("Copied");
  }

  // ---- The start ----

  function showHead() {
    document.title = `${data.title}: similar pairs`;
    $("title").textContent = data.title;
    $("question").textContent = data.question;
    $("made").textContent = `Made ${data.made}.`;
    $("command").textContent = data.command;
    $("sql").textContent = data.sql;
    if (data.left_out > 0) {
      $("left-out").textContent = `${counted(data.left_out, "weaker pair was", "weaker pairs were")} left out, since there were too many. ` +
        (total ? `Figures ${data.distance ? "above" : "below"} ${tidy(scores[total - 1])} count too few.` : "");
      $("left-out").hidden = false;
    }
    const file = fileName(data.title);
    const told = data.id_name ? ` --id ${data.id_name}` : "";
    const evaluate = `simjoin evaluate links.csv ${file}`;
    const python = `simjoin.deduplicate(…, labels="${file}")`;
    const dedupe = data.told_by === "place" ? python : `simjoin dedupe ${data.title} …${told} --labels ${file}`;
    $("use").textContent = single ? `${dedupe}\n${evaluate}` : evaluate;
  }

  function listen() {
    document.addEventListener("keydown", onKey);
    document.addEventListener("focusin", onFocus);
    $("slider").addEventListener("input", () => setThreshold(Math.max(low, Math.min(high, Number($("slider").value))), "slider"));
    $("exact").addEventListener("input", () => {
      const value = $("exact").valueAsNumber;
      if (value >= low && value <= high) setThreshold(value, "exact");
    });
    $("exact").addEventListener("change", () => { $("exact").value = tidy(state.threshold); });
    $("back").addEventListener("click", () => { setThreshold(data.at); $("slider").focus(); });
    $("asked").addEventListener("click", () => { setThreshold(suggested); $("slider").focus(); });
    for (const name of ["pairs", "groups"]) {
      $("tab-" + name).addEventListener("click", () => showTab(name));
      $("tab-" + name).addEventListener("keydown", onTabKey);
      for (const select of $("panel-" + name).querySelectorAll("select")) select.addEventListener("change", () => refreshList(name));
      $(name + "-search").addEventListener("input", () => { clearTimeout(searching); searching = setTimeout(searchNow, 200); });
    }
    for (const form of document.querySelectorAll("form.controls")) form.addEventListener("submit", (event) => event.preventDefault());
    for (const made of document.querySelectorAll("[data-copy]")) made.addEventListener("click", copy);
    $("undo").addEventListener("click", undo);
    $("export").addEventListener("click", exportMarks);
    $("import").addEventListener("click", () => $("file").click());
    $("file").addEventListener("change", async () => {
      if ($("file").files.length) importMarks(await $("file").files[0].text());
      $("file").value = "";
    });
    $("keys").addEventListener("click", () => $("help").showModal());
    window.addEventListener("storage", (event) => {
      if (storage && event.key === storage) { readStorage(); afterMarks(); }
    });
    window.addEventListener("beforeunload", (event) => { if (unsaved && marks.size) event.preventDefault(); });
  }

  document.body.classList.toggle("nothing", !total);
  for (const make of [showHead, makeFigures, makeHistogram, makeAxis, makeSteps, sayWhy, loadMarks]) make();
  recount();
  paintThreshold();
  showProgress();
  $("slider").value = state.threshold;
  $("exact").value = tidy(state.threshold);
  listen();
  showTab("pairs");
  document.documentElement.dataset.ready = performance.now().toFixed(1);
})();
