// The explorer of a report: sliders over the grid on which Python predicted (`data`, _explorer.py).
const at = (id) => document.getElementById(id);
let over = 0; // the axis of the picture: that of the slider which moved last

function answer(nodes) { // of the point of the grid that the sliders are at
  const k = data.axes.reduce((k, axis, j) => k * axis.nodes.length + nodes[j], 0);
  return { value: data.values[k], low: data.low[k], high: data.high[k], outside: data.outside[k] };
}
const four = (value) => (value === null ? "unknown" : value.toPrecision(4));
function written(axis, node) {
  if (axis.levels.length) return axis.levels[node];
  const count = axis.nodes[node] * axis.single;
  const [name, size] = [["T", 1e12], ["B", 1e9], ["M", 1e6], ["K", 1e3]].find(([, size]) => count >= size) ?? ["", 1];
  const plain = !axis.unit || axis.unit === "FLOPs" || count >= 1e15;
  return `${Number((plain ? count : count / size).toPrecision(3))} ${plain ? "" : name} ${axis.unit}`.trim();
}
function picture(nodes) { // target and band over one axis, evenly spaced in its nodes
  const axis = data.axes[over], last = axis.nodes.length - 1;
  const rows = axis.nodes.map((_, i) => answer(nodes.map((old, j) => (j === over ? i : old))));
  const ends = rows.flatMap((row) => [row.value, row.low, row.high]).filter((v) => v !== null);
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const X = (i) => 60 + 565 * i / (last || 1), Y = (v) => 250 - 230 * (v - least) / (most - least || 1);
  const line = (column) => rows.map((row, i) => [i, row[column]]);
  const path = (points) => points.filter(([, v]) => v !== null)
    .map(([i, v], k) => (k ? "L" : "M") + X(i).toFixed(1) + " " + Y(v).toFixed(1)).join("");
  const text = (x, y, anchor, words) => `<text x="${x}" y="${y}" text-anchor="${anchor}">${words}</text>`;
  at("explorer-picture").innerHTML = `<path class="band" d="${path([...line("low"), ...line("high").reverse()])}"/>`
    + `<path class="line" d="${path(line("value"))}"/><path class="axis" d="M60 15V250H625"/>`
    + `<circle class="mark" cx="${X(nodes[over])}" cy="${Y(answer(nodes).value)}" r="4.5"/>`
    + [least, most].map((v) => text(54, Y(v) + 4, "end", four(v))).join("")
    + (axis.levels.length ? "" : [0, last >> 1, last].map((i, k) => text(X(i), 270, ["start", "middle", "end"][k], written(axis, i))).join(""));
  at("explorer-over").textContent = `${data.target} over ${axis.label}. `;
}
function draw() {
  const nodes = data.axes.map((_, k) => Number(at(`x-${k}`).value)), { value, low, high, outside } = answer(nodes);
  data.axes.forEach((axis, k) => { at(`o-${k}`).textContent = written(axis, nodes[k]); });
  const band = low === null ? "" : ` (${Math.round(100 * data.level)}%: ${four(low)} to ${four(high)})`;
  at("explorer-answer").textContent = `${data.target} ${four(value)}${data.unit && " " + data.unit}${band}`;
  at("explorer-outside").textContent = !data.known ? "The ranges of the fitted runs are not known."
    : outside ? "Beyond the fitted runs: an extrapolation." : "Inside the fitted runs.";
  at("explorer-outside").className = outside ? "outside" : "";
  picture(nodes);
}
data.axes.forEach((_, k) => at(`x-${k}`).addEventListener("input", () => { over = k; draw(); }));
at("explorer").hidden = false;
draw();
