// The explorer of a report: moves the inputs of a law and shows what it predicts.
// `law(p, x)` is written above by Python; `data` is what _explorer.py says of the fit.
"use strict";
const at = (id) => document.getElementById(id);
const NAMES = [["T", 1e12], ["B", 1e9], ["M", 1e6], ["K", 1e3]];
const few = (v) => Number.isFinite(v) ? String(Number(v.toPrecision(3))).replace("e+", "e") : String(v);
function readable(v, unit) {
  const after = unit ? " " + unit : "", size = Math.abs(v);
  if (unit === "FLOPs" || size >= 9.995e14) return few(v).includes("e") ? few(v) + after
    : v.toExponential(2).replace(/\.?0+e\+?/, "e") + after;
  for (const [name, worth] of NAMES) if (size >= 0.9995 * worth) return few(v / worth) + " " + name + after;
  return few(v) + after;
}

// Percentiles as numpy has them: linear between the neighbours.
function percentile(sorted, q) {
  const place = (sorted.length - 1) * q, low = Math.floor(place), high = Math.ceil(place);
  return sorted[low] + (sorted[high] - sorted[low]) * (place - low);
}
const band = (values) => {
  const good = values.filter(Number.isFinite).sort((a, b) => a - b), tail = (1 - data.level) / 2;
  return good.length ? [percentile(good, tail), percentile(good, 1 - tail)] : [NaN, NaN];
};
// The law's own units; what an input has for every drop of the rate is in them.
const own = (x) => x.map((v, k) => Array.isArray(v) ? v : v * data.inputs[k].worth);
const predicted = (x) => law(data.params, own(x));
const interval = (x) => {
  const o = own(x), noise = data.noise || [];
  const drawn = band(data.draws.map((p, k) => law(p, o) * (noise[k] ?? 1)));
  return data.points ? stretched(x, drawn) : drawn;
};
// The interval of a forecast: at its points its own, elsewhere stretched as at the nearest of them.
function stretched(x, limits) {
  const away = (point) => x.reduce((sum, v, k) => sum + Math.abs(Math.log(v / point.x[k])), 0);
  const near = data.points.reduce((a, b) => away(b) < away(a) ? b : a), value = predicted(x);
  return limits.map((limit, k) => value * Math.pow(limit / value, near.stretch[k]));
}

// What lies beyond the fitted runs: an input, a product or a ratio of two, by the rules of
// jaxlaw.fitting's is_extrapolation.
function beyond(x) {
  const index = Object.fromEntries(data.inputs.map((spec, k) => [spec.name, k]));
  const names = data.inputs.filter(({ range, annealed }, k) => {
    if (!range) return false;
    const [low, high] = range;
    const slack = Math.max(1e-9 * Math.max(Math.abs(low), Math.abs(high)), annealed ? 0.02 * (high - low) : 0);
    return low === null || ![x[k]].flat().every((v) => v >= low - slack && v <= high + slack);
  }).map((spec) => spec.name);
  for (const [label, [low, high]] of Object.entries(data.joint)) {
    const [a, sign, b] = label.split(/([*/])/), i = index[a], j = index[b];
    const spans = [i, j].map((k) => Math.log(data.inputs[k].range[1] / data.inputs[k].range[0]));
    const near = Math.exp(0.05 * Math.min(...spans)), v = sign === "*" ? x[i] * x[j] : x[i] / x[j];
    const inside = v >= low / near * (1 - 1e-9) && v <= high * near * (1 + 1e-9);
    if (!inside && !names.includes(a) && !names.includes(b)) names.push(label);
  }
  return names;
}

// ---- the rates of a phase, and the areas under them (jaxlaw.schedules, jaxlaw.areas)
const even = (v) => Math.abs(v % 1) === 0.5 ? 2 * Math.round(v / 2) : Math.round(v); // as Python
const SHAPES = {
  constant: (peak) => peak,
  linear: (peak, last, t, steps) => peak + (last - peak) * (t / steps),
  cosine: (peak, last, t, steps) => last + (peak - last) * (0.5 + 0.5 * Math.cos(Math.PI * t / steps)),
  wsd: (peak, last, t, steps, count) => peak + (last - peak)
    * Math.min(Math.max((t - (steps - count)) / Math.max(count, 1), 0), 1),
};
function rates({ shape, peak, final, warmup: rise, steps: whole, decay }) {
  const warmup = Math.min(rise, whole - 1), steps = whole - warmup; // a warm-up is part of the steps
  const all = new Float64Array(whole), count = even(decay * steps);
  for (let t = 1; t <= warmup; t++) all[t - 1] = peak * (t / warmup);
  for (let t = 1; t <= steps; t++) all[warmup + t - 1] = SHAPES[shape](peak, final * peak, t, steps, count);
  return { all, before: warmup ? 0 : peak };
}
function areas(phases) {
  const { decay, carry_momentum: carry, count_warmup: counted, epsilon } = data.areas;
  const length = phases.reduce((n, phase) => n + phase.all.length, 0);
  const S1 = new Float64Array(length), S2 = new Float64Array(length), lr = new Float64Array(length);
  const start = phases.length > 1 ? phases[0].all.length : length;
  let m = 0, last = data.alone ? 0 : phases[0].before, k = 0;
  phases.forEach((phase, number) => {
    let forward = 0, annealed = 0;
    if (number && !carry) m = 0;
    // The rises of pre-training's warm-up count where the fit counted them.
    let highest = 0;
    phase.all.forEach((rate, i) => { if (rate > phase.all[highest]) highest = i; });
    const skip = !counted && number === 0 && !data.alone;
    phase.all.forEach((rate, i) => {
      let drop = last - rate;
      if (skip && i <= highest) drop = Math.max(drop, 0);
      m = decay * m + drop;
      forward += rate;
      annealed += epsilon === null ? m : rate > 0 ? m * rate ** epsilon : 0;
      S1[k] = forward; S2[k] = annealed; lr[k] = rate; last = rate; k += 1;
    });
  });
  return { S1, S2, lr, start, length, before: data.alone ? 0 : phases[0].before };
}
function areasAt(found, step) { // after so many steps
  const { S1, S2, start } = found, zero = { S1_pt: 0, S1_cpt: 0, S2_pt: 0, S2_cpt: 0 };
  if (step > 0 && data.alone) Object.assign(zero, { S1_cpt: S1[step - 1], S2_cpt: S2[step - 1] });
  else if (step > 0) {
    const first = Math.min(step, start) - 1;
    Object.assign(zero, { S1_pt: S1[first], S2_pt: S2[first] });
    if (step > start) Object.assign(zero, { S1_cpt: S1[step - 1], S2_cpt: S2[step - 1] });
  }
  return { ...zero, S1: zero.S1_pt + zero.S1_cpt, S2: zero.S2_pt + zero.S2_cpt };
}
// ---- the drops of the rate up to a step (jaxlaw.data.drops_along), which has the reasons
const first = (n, holds) => { // of 0 to n - 1, where what holds goes on to hold; n if nowhere
  let low = 0, high = n;
  while (low < high) { const k = (low + high) >> 1; if (holds(k)) high = k; else low = k + 1; }
  return low;
};
const sumsOf = (terms) => {
  const sums = new Float64Array(terms.length + 1);
  terms.forEach((v, k) => { sums[k + 1] = sums[k] + v; });
  return sums;
};
function dropsOf({ lr, before, start }) {
  const highest = lr.reduce((a, b) => Math.max(a, b), 0), floor = 1e-9 * Math.max(highest, 2.2250738585072014e-308);
  const peak = lr.subarray(0, start).reduce((best, v, k) => v > lr[best] ? k : best, 0);
  const changes = Array.from(lr, (rate, k) => {
    const drop = (k ? lr[k - 1] : before) - rate;
    return !data.areas.count_warmup && k <= peak ? Math.max(drop, 0) : drop;
  });
  const sums = sumsOf(lr), kinds = [(v) => v > 0, (v) => v < 0].map((wanted) => {
    const at = changes.flatMap((v, k) => wanted(v) ? [k] : []), drops = at.map((k) => changes[k]);
    const eta = at.map((k) => Math.max(lr[k], floor)), since = at.map((k) => sums[k]);
    return { at, drops, eta, since, total: sumsOf(drops), logs: sumsOf(drops.map((v, k) => v * Math.log(eta[k]))),
      means: sumsOf(drops.map((v, k) => v * since[k])) };
  }).filter((kind) => kind.at.length);
  const few = kinds.reduce((n, kind) => n + kind.at.length, 0) <= data.most_drops;
  return { sums, kinds, few, floor, highest: Math.max(highest, floor) };
}
function limits({ at, total, since }, count, now) { // of the groups
  const half = data.most_drops / 2, size = (k) => Math.abs(total[k]), edges = [];
  const furthest = count ? now - since[0] : 1;
  const nearest = Math.max(count ? now - since[count - 1] : 1, 1e-12 * furthest);
  for (let k = 1; k < half; k++) {
    const even = size(count) * (k / half), wanted = now - nearest * Math.pow(furthest / nearest, k / half);
    edges.push(first(total.length, (j) => size(j) >= even), first(at.length, (j) => since[j] >= wanted));
  }
  return [0, ...edges.map((k) => Math.min(k, count)).sort((a, b) => a - b), count];
}
function dropsAt({ sums, kinds, few, floor, highest }, step) {
  const drop = [], eta_k = [], S_k = [], now = sums[step];
  const add = (v, rate, since) => {
    drop.push(v); eta_k.push(v === 0 ? highest : rate); S_k.push(Math.max(v === 0 ? now : since, floor));
  };
  for (const kind of kinds) {
    const { at, drops, eta, since, total, logs, means } = kind, count = first(at.length, (k) => at[k] >= step);
    if (few) at.forEach((_, k) => add(k < count ? drops[k] : 0, eta[k], now - since[k]));
    else limits(kind, count, now).forEach((high, k, all) => {
      if (!k) return;
      const low = all[k - 1], v = total[high] - total[low], one = Math.min(low, at.length - 1);
      const end = Math.min(Math.max(high - 1, one), at.length - 1);
      const mean = Math.min(Math.max((means[high] - means[low]) / v, since[one]), since[end]);
      add(v, Math.exp((logs[high] - logs[low]) / v), now - mean);
    });
  }
  if (!kinds.length) add(0, highest, now);
  return { drop, eta_k, S_k };
}

// ---- controls: a slider, and a field that takes "70B" as well as a number in the runs' unit
function quantity(text, worth) {
  const match = /^\s*([+-]?[\d.]+(?:e[+-]?\d+)?)\s*([KMBT]?)\s*$/i.exec(text);
  if (!match) return NaN;
  const name = NAMES.find(([letter]) => letter === match[2].toUpperCase());
  return name ? parseFloat(match[1]) * name[1] / worth : parseFloat(match[1]);
}
const controls = data.controls.map((spec) => {
  const slider = at("x-" + spec.id), field = at("n-" + spec.id), control = { spec, value: spec.value };
  const move = spec.log ? Math.log : (v) => v, back = spec.log ? Math.exp : (v) => v;
  const [low, high] = spec.choices ? [0, 0] : [move(spec.low), move(spec.high)];
  control.set = (v, from) => {
    control.value = spec.whole ? Math.round(v) : v;
    if (spec.choices) return;
    if (from !== slider) slider.value = 1000 * (move(control.value) - low) / (high - low);
    if (from !== field) {
      field.value = spec.whole ? control.value
        : spec.unit && spec.unit !== "FLOPs" ? readable(control.value * spec.worth, "") : few(control.value);
    }
  };
  if (slider) slider.addEventListener("input", () => {
    control.set(back(low + (high - low) * slider.value / 1000), slider); draw();
  });
  field.addEventListener(spec.choices ? "change" : "input", () => {
    const v = spec.choices ? field.value : quantity(field.value, spec.worth);
    const good = spec.choices || Number.isFinite(v) && (!spec.log || v > 0);
    field.classList.toggle("wrong", !good);
    if (good) { control.set(v, field); draw(); }
  });
  control.set(spec.value, null);
  return control;
});
const values = () => Object.fromEntries(controls.map((one) => [one.spec.id, one.value]));

// ---- the best size and data of a budget of 6·N·D
function optimum(p, x, budget) {
  const [n, d] = [data.inputs.findIndex((s) => s.name === "N"), data.inputs.findIndex((s) => s.name === "D")];
  const [one, two] = [data.inputs[n], data.inputs[d]];
  const point = (log) => {
    const size = Math.exp(log), all = [...x];
    all[n] = size / one.single; all[d] = budget / (6 * size) / two.single;
    return all;
  };
  const loss = (log) => { const v = law(p, own(point(log))); return Number.isFinite(v) ? v : Infinity; };
  const low = Math.log(1e4), high = Math.log(budget / 6 / 1e4), cells = 160;
  let best = 0, least = Infinity;
  for (let k = 0; k <= cells; k++) {
    const v = loss(low + (high - low) * k / cells);
    if (v < least) { least = v; best = k; }
  }
  let a = low + (high - low) * Math.max(best - 1, 0) / cells;
  let b = low + (high - low) * Math.min(best + 1, cells) / cells;
  const golden = (Math.sqrt(5) - 1) / 2;
  for (let k = 0; k < 80; k++) {
    const c = b - golden * (b - a), e = a + golden * (b - a);
    if (loss(c) < loss(e)) b = e; else a = c;
  }
  // A minimum at the end of the search is none.
  return best === 0 || best === cells ? null : point((a + b) / 2);
}

// ---- the picture
const SVG = at("explorer-picture").namespaceURI;
function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, v] of Object.entries(attributes)) made.setAttribute(key, v);
  if (text !== undefined) made.textContent = text;
  return made;
}
// Grey within a factor of ten beyond the runs (or a tenth of their range), then striped.
const limitsOf = ([low, high], log) => log ? [low / 10, high * 10]
  : [low - 0.1 * (high - low), high + 0.1 * (high - low)];
function shadesOf(range, log, first, last) {
  if (!range || range[0] === null) return [];
  const [low, high] = range, [least, most] = limitsOf(range, log);
  return [[first, least, 1], [least, low, 0], [high, most, 0], [most, last, 1]]
    .map(([a, b, far]) => [Math.max(a, first), Math.min(b, last), far]).filter(([a, b]) => b > a);
}
function shadesAlong(steps, points) { // from step to step
  const how = points.map((x) => !beyond(x).length ? -1 : +data.inputs.some(({ range }, k) => {
    if (!range || range[0] === null) return false;
    const [least, most] = limitsOf(range, range[0] > 0);
    return [x[k]].flat().some((v) => v < least || v > most);
  }));
  const shades = [];
  steps.slice(1).forEach((step, k) => {
    if (how[k + 1] < 0) return;
    const last = shades.at(-1);
    if (last && last[1] === steps[k] && last[2] === how[k + 1]) last[1] = step;
    else shades.push([steps[k], step, how[k + 1]]);
  });
  return shades;
}
function picture(xs, ys, bands, mark, shades, log, xlabel, lr, peak) {
  const svg = at("explorer-picture"), W = 640, H = lr ? 400 : 300, left = 62, right = 626, top = 14;
  const bottom = 256;
  svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
  svg.replaceChildren();
  const move = log ? Math.log : (v) => v;
  const [x0, x1] = [move(xs[0]), move(xs[xs.length - 1])];
  const ends = [...ys, ...bands.flat()].filter(Number.isFinite);
  let y0 = Math.min(...ends), y1 = Math.max(...ends);
  [y0, y1] = [y0 - 0.05 * (y1 - y0) - 1e-12, y1 + 0.05 * (y1 - y0) + 1e-12];
  const X = (v) => left + (right - left) * (move(v) - x0) / (x1 - x0 || 1);
  const Y = (v) => bottom - (bottom - top) * (v - y0) / (y1 - y0);
  const path = (points) => points.filter(([, y]) => Number.isFinite(y))
    .map(([x, y], k) => (k ? "L" : "M") + X(x).toFixed(1) + " " + Y(y).toFixed(1)).join("");
  const stripes = shape("pattern", { id: "stripes", width: 7, height: 7,
    patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  stripes.append(shape("line", { x1: 0, y1: 0, x2: 0, y2: 7, class: "stripe" }));
  svg.append(stripes);
  for (const [a, b, far] of shades) {
    svg.append(shape("rect", { x: X(a), y: top, width: X(b) - X(a), height: bottom - top,
      class: far ? "far" : "beyond" }));
  }
  if (bands.length) {
    const lower = bands.map((b, k) => [xs[k], b[0]]), upper = bands.map((b, k) => [xs[k], b[1]]);
    svg.append(shape("path", { class: "band", d: path([...lower, ...upper.reverse()]) + "Z" }));
  }
  svg.append(shape("path", { class: "line", d: path(xs.map((x, k) => [x, ys[k]])) }));
  if (mark) {
    svg.append(shape("line", { class: "mark", x1: X(mark[0]), x2: X(mark[0]), y1: top, y2: bottom }));
    svg.append(shape("circle", { class: "mark", cx: X(mark[0]), cy: Y(mark[1]), r: 4.5 }));
  }
  svg.append(shape("path", { class: "axis", d: `M${left} ${top}V${bottom}H${right}` }));
  for (let k = 0; k <= 4; k++) {
    const y = y0 + (y1 - y0) * k / 4, x = log ? Math.exp(x0 + (x1 - x0) * k / 4) : x0 + (x1 - x0) * k / 4;
    svg.append(shape("text", { x: left - 6, y: Y(y) + 4, "text-anchor": "end" }, y.toFixed(3)));
    svg.append(shape("text", { x: X(x), y: bottom + 17, "text-anchor": k === 4 ? "end" : "middle" },
      readable(x * xlabel.worth, "")));
  }
  svg.append(shape("text", { x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle" }, xlabel.text));
  svg.append(shape("text", { x: left + 6, y: top + 12 }, data.target));
  if (lr) {
    const floor = H - 10, roof = bottom + 56;
    svg.append(shape("path", { class: "rate", d: xs.map((x, k) => (k ? "L" : "M") + X(x).toFixed(1) + " "
      + (floor - (floor - roof) * lr[k] / (peak || 1)).toFixed(1)).join("") }));
    svg.append(shape("text", { x: left + 6, y: roof - 2 }, "learning rate, up to " + few(peak)));
  }
  svg.setAttribute("aria-label", `${data.target} over ${xlabel.text}`);
}

// ---- what is said
function say(text, x, value, limits) {
  const between = Number.isFinite(limits[0])
    ? ` (${Math.round(100 * data.level)} %: ${limits[0].toPrecision(5)} to ${limits[1].toPrecision(5)})` : "";
  const outside = beyond(x), answer = at("explorer-answer");
  answer.textContent = `${text}${data.target} ${value.toPrecision(5)}${data.unit && " " + data.unit}${between}`;
  answer.dataset.value = value; answer.dataset.low = limits[0]; answer.dataset.high = limits[1];
  answer.dataset.point = JSON.stringify(x);
  const unknown = data.inputs.some((spec) => spec.range && spec.range[0] === null);
  at("explorer-outside").textContent = unknown ? "The ranges of the fitted runs are not known." : outside.length
    ? `Beyond the fitted runs in ${outside.join(", ").replaceAll("*", "·")}: an extrapolation.` : "Inside the fitted runs.";
  at("explorer-outside").className = outside.length ? "outside" : "";
}
const grid = (low, high, log, n) => Array.from({ length: n + 1 }, (_, k) => log
  ? Math.exp(Math.log(low) + (Math.log(high) - Math.log(low)) * k / n) : low + (high - low) * k / n);

function drawPoint(chosen) {
  let x = data.inputs.map((spec) => spec.levels ? spec.levels.indexOf(chosen[spec.name]) : chosen[spec.name]);
  let text = "";
  if ("compute" in chosen) {
    const best = optimum(data.params, x, chosen.compute), found = at("explorer-optimum");
    if (best === null) found.textContent = "The loss only falls: no best size at this compute.";
    else {
      const pick = (name) => data.inputs.findIndex((spec) => spec.name === name);
      const [n, d] = [pick("N"), pick("D")], single = (v, k) => v * data.inputs[k].single;
      const drawn = data.draws.map((p) => optimum(p, x, chosen.compute)).filter((v) => v !== null);
      const [low, high] = band(drawn.map((v) => single(v[n], n)));
      const sizes = Number.isFinite(low) ? ` (${Math.round(100 * data.level)} %: ${readable(low, "")} to ${readable(high, "")})` : "";
      const there = interval(best), outside = beyond(best);
      found.textContent = `${readable(chosen.compute, "FLOPs")}: ${readable(single(best[n], n), "parameters")}${sizes}`
        + ` and ${readable(single(best[d], d), "tokens")} (${few(single(best[d], d) / single(best[n], n))} a parameter),`
        + ` ${data.target} ${predicted(best).toPrecision(5)}`
        + (Number.isFinite(there[0]) ? ` (${there[0].toPrecision(5)} to ${there[1].toPrecision(5)})` : "")
        + (outside.length ? `; beyond the runs in ${outside.join(", ")}` : "");
      found.dataset.point = JSON.stringify(best); found.dataset.value = predicted(best);
    }
  }
  const k = data.inputs.findIndex((spec) => spec.name === at("explorer-over").value), spec = data.inputs[k];
  const control = data.controls.find((one) => one.id === spec.name);
  const [low, high] = [Math.min(control.low, x[k]), Math.max(control.high, x[k])];
  const xs = grid(low, high, control.log, 96), point = (v) => x.map((old, j) => j === k ? v : old);
  const ys = xs.map((v) => predicted(point(v)));
  const bands = data.draws.length ? xs.map((v) => interval(point(v))) : [];
  const value = predicted(x);
  picture(xs, ys, bands, [x[k], value], shadesOf(spec.range, control.log, low, high), control.log,
    { text: `${spec.name}: ${spec.doc}`, worth: spec.single });
  const words = data.inputs.map((one, j) => one.levels ? one.levels[x[j]]
    : `${one.name} ${readable(x[j] * one.single, one.unit)}`);
  say(`${words.join(", ")}: `, x, value, data.draws.length ? interval(x) : [NaN, NaN]);
}

function leastStep(found) { // the first step that is as far as the first of the fitted ones
  const spec = data.inputs.find(({ name, range }) => /^S1/.test(name) && range && range[0] !== null);
  return spec ? first(found.length, (k) => areasAt(found, k)[spec.name] >= spec.range[0] * spec.worth) : 0;
}
function drawCurve(chosen) {
  const phases = data.phases.map((phase) => rates(Object.fromEntries(
    ["shape", "peak", "final", "steps", "warmup", "decay"].map((key) => [key, chosen[`${phase}-${key}`]]))));
  const found = areas(phases), drops = data.most_drops ? dropsOf(found) : null;
  const point = (step) => {
    const known = { ...chosen, ...areasAt(found, step), ...(drops && dropsAt(drops, step)) };
    return data.inputs.map((spec) => spec.levels ? spec.levels.indexOf(known[spec.name])
      : spec.area ? known[spec.name] / spec.worth : known[spec.name]);
  };
  // The first steps, of which no law knows anything, would flatten all others.
  const many = Math.round(found.length / 50), runs = leastStep(found);
  const from = Math.max(many, runs < found.length / 2 ? runs : 0, 1);
  const steps = [...new Set(grid(from, found.length, false, data.most_drops ? 60 : 160).map(Math.round))];
  const points = steps.map(point), ys = points.map(predicted);
  const bands = data.draws.length ? points.map(interval) : [];
  const end = point(found.length), value = predicted(end);
  const unknown = data.inputs.some(({ range }) => range && range[0] === null);
  picture(steps, ys, bands, [found.length, value], unknown ? [] : shadesAlong(steps, points), false,
    { text: "step", worth: 1 }, steps.map((step) => found.lr[step - 1]),
    found.lr.reduce((a, b) => Math.max(a, b), 0));
  say(`After ${found.length} steps: `, end, value, data.draws.length ? interval(end) : [NaN, NaN]);
}

function draw() {
  const chosen = values();
  if (data.phases) drawCurve(chosen); else drawPoint(chosen);
}
if (at("explorer-over")) at("explorer-over").addEventListener("change", draw);
at("explorer").hidden = false;
draw();
