// Charts over time, drawn by uPlot. A chart is a picture with a sentence; the table beside it has the numbers.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { fill, h } from "../lib/dom.js";
import { number, short } from "../lib/format.js";
import { wall, zoned } from "../lib/zone.js";
import { onScheme, tones } from "./tones.js";

const HEIGHT = 260;
const FONT = "12px system-ui, sans-serif";

/**
 * A chart's figure; `draw` shows other data. Data: `xs` (seconds since 1970), `series` (each `label`, `ys`, and `tone`, `bars`,
 * `dash`, `band` = the `[low, high]` that contains the true value), `from` (seconds from which windows are open), `ends` (of the windows of
 * `xs`), `zone` (of the axis), `sentence`. Charts with the same `sync` have one pointer.
 */
export function chart({ label, signal, height = HEIGHT, sync = null }) {
  const canvas = h("div", { class: "plot", role: "img", "aria-label": label });
  const legend = h("ul", { class: "legend" });
  const caption = h("figcaption", {});
  const figure = h("figure", { class: "chart" }, legend, canvas, caption);
  let plot = null;
  let data = null;

  function draw(next) {
    data = next;
    canvas.setAttribute("aria-label", `${label}. ${next.sentence}`);
    fill(caption, next.sentence);
    fill(legend, next.series.map((one) => entry(one)), next.from ? h("li", {}, h("span", { class: "swatch open" }), "open windows") : null, h("li", {}, h("output", { class: "when" })));
    const position = plot?.cursor.left;
    plot?.destroy();
    plot = next.xs.length ? new uPlot(options(next, width(figure), height, legend, sync), columns(next), canvas) : null;
    if (plot && position >= 0) plot.setCursor({ left: position, top: 0 });
  }

  const sized = new ResizeObserver(() => plot?.setSize({ width: width(figure), height }));
  sized.observe(figure);
  onScheme(() => data && draw(data), signal);
  signal.addEventListener("abort", () => {
    sized.disconnect();
    plot?.destroy();
  });
  return { figure, draw };
}

function width(figure) {
  return Math.max(240, Math.floor(figure.clientWidth));
}

function entry(one) {
  return h("li", {}, h("span", { class: `swatch ${one.tone}${one.dash ? " dashed" : ""}` }), one.label, " ", h("output", { class: "at" }));
}

function columns(data) {
  const bands = data.series.filter((one) => one.band).flatMap((one) => one.band);
  return [data.xs, ...data.series.map((one) => one.ys), ...bands];
}

function options(data, wide, height, legend, sync) {
  const colours = tones();
  const lines = data.series.map((one) => series(one, colours, data));
  const bands = [];
  data.series.forEach((one) => {
    if (!one.band) return;
    const low = 1 + lines.length;
    lines.push({ points: { show: false }, width: 0 }, { points: { show: false }, width: 0 });
    bands.push({ series: [low + 1, low], fill: colours.band });
  });
  return {
    width: wide,
    height,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), data.zone),
    legend: { show: false },
    padding: [null, EDGE, null, null],
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, sync: sync === null ? undefined : { key: sync, setSeries: false } },
    scales: { x: { range: () => stretch(data) }, y: { range: (_, low, high) => (low === null ? [0, 1] : uPlot.rangeNum(Math.min(0, low), high, { min: { pad: 0.1, soft: 0, mode: 1 }, max: { pad: 0.1 } })) } },
    axes: [axis(colours, { size: 46, gap: 8, space: (_, __, low, high) => (high - low > 3 * DAY_S ? 66 : 84), values: (_, ticks, __, ___, step) => clock(ticks, step, data.zone) }), axis(colours, { size: 56, values: (_, ticks) => ticks.map(short) })],
    series: [{}, ...lines],
    bands,
    hooks: { drawClear: [(plot) => shade(plot, data.from, colours)], setCursor: [(plot) => read(plot, data, legend)] },
  };
}

const DAY_S = 86400;
const ALONE_S = 1800;
// Half of the longest label of the axis, so that the last tick fits.
const EDGE = 40;

/** The range of a time axis, in seconds: to the end of the last window, or around a single moment. uPlot would give one window 1000 days. */
export function stretch({ xs, ends }) {
  if (!xs.length) return [0, 1];
  const [low, end] = [xs[0], Math.max(xs.at(-1), ends.at(-1))];
  return end > low ? [low, end] : [low - ALONE_S, low + ALONE_S];
}

/** The ticks of the axis of time: the hour, and under it the day where that changes; or the day with the year, the month, the year. */
function clock(ticks, step, zone) {
  let before = "";
  return ticks.map((x) => {
    // Some hours into the day: ticks of days are at midnight, or an hour beside it where clocks change.
    const [day, hour] = wall((step >= DAY_S ? x + DAY_S / 4 : x) * 1000, zone).split("T");
    if (step >= 300 * DAY_S) return day.slice(0, 4);
    if (step >= 28 * DAY_S) return day.slice(0, 7);
    const [text, under] = step >= DAY_S ? [day.slice(5), day.slice(0, 4)] : [step < 1 ? hour.slice(3) : step < 60 ? hour.slice(0, 8) : hour.slice(0, 5), day];
    const changed = under !== before;
    before = under;
    return changed ? `${text}\n${under}` : text;
  });
}

function axis(colours, more) {
  return { stroke: colours.faint, font: FONT, grid: { stroke: colours.rule, width: 1 }, ticks: { show: false }, ...more };
}

function series(one, colours, { xs, ends }) {
  const colour = colours[one.tone];
  if (one.bars) {
    return { stroke: colour, fill: colour, width: 0, points: { show: false }, paths: columnsOf(ends) };
  }
  return { stroke: colour, width: 1.8, dash: one.dash, spanGaps: false, points: { show: xs.length < 60, size: 5, fill: colour } };
}

/** Bars that are as wide as their windows: months have 28 to 31 days. */
function columnsOf(ends) {
  return (plot, at, first, last) => {
    const fill = new Path2D();
    const zero = plot.valToPos(0, "y", true);
    for (let n = first; n <= last; n += 1) {
      const value = plot.data[at][n];
      if (value === null || value === undefined) continue;
      const [left, right] = [plot.data[0][n], ends[n]].map((x) => plot.valToPos(x, "x", true));
      const gap = Math.min(0.15 * (right - left), 6 * devicePixelRatio);
      const top = plot.valToPos(value, "y", true);
      fill.rect(left + gap / 2, Math.min(top, zero), Math.max(1, right - left - gap), Math.abs(zero - top));
    }
    return { fill, stroke: null, clip: null, band: null, gaps: null, flags: 0 };
  };
}

/** A tint behind the windows that are still open. */
function shade(plot, from, colours) {
  if (!from) return;
  const { left, top, width: wide, height } = plot.bbox;
  const begins = Math.max(left, plot.valToPos(from, "x", true));
  if (begins >= left + wide) return;
  plot.ctx.save();
  plot.ctx.fillStyle = colours.shade;
  plot.ctx.fillRect(begins, top, left + wide - begins, height);
  plot.ctx.restore();
}

/** The values under the pointer, in the legend. */
function read(plot, data, legend) {
  const at = plot.cursor.idx;
  const outputs = legend.querySelectorAll(".at");
  data.series.forEach((one, place) => {
    const value = at === null || at === undefined ? null : (one.told ?? one.ys)[at];
    outputs[place].textContent = value === null || value === undefined ? "" : number(value);
  });
  legend.querySelector(".when").textContent = at === null || at === undefined ? "" : zoned(new Date(data.xs[at] * 1000).toISOString().replace(".000", ""), data.zone);
}
