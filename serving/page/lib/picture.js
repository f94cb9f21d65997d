// Chart data of measures, from rows.

import { counted, number } from "./format.js";
import { rowId } from "./question.js";
import { zoned } from "./zone.js";

const LINES = 5;
const SIMILAR = 20;
const TONES = ["line-1", "line-3", "line-4", "line-5", "line-2"];
const RELATIVE = new Set(["hll", "theta"]);

/** The data of a chart over time. `speed` are the rows of the speed layer at the same snapshot, null if the parts are unknown. */
export function overTime({ rows, whole, speed, measure, columns, estimate, zone = "UTC" }) {
  const kept = whole ? rows : withoutOldest(rows);
  const xs = [...new Set(kept.map((row) => seconds(row.window_start)))].sort((a, b) => a - b);
  const place = new Map(xs.map((x, at) => [x, at]));
  const keys = groups(kept, columns);
  const open = kept.filter((row) => row.window_state === "open").map((row) => seconds(row.window_start));
  const series = measure.adds ? stacked(kept, speed, measure, xs, place) : lines(kept, keys, measure, xs, place, estimate);
  return {
    xs,
    series,
    from: open.length ? Math.min(...open) : null,
    ends: endsOf(kept, xs, place),
    zone,
    sentence: sentence({ xs, keys, measure, zone, cut: !whole, shownKeys: series.length }),
  };
}

/** The data of a chart of several measures: a line each, sums over keys or, where those mean nothing, of the key with the most rows. */
export function together({ rows, whole, measures, columns, zone }) {
  const kept = whole ? rows : withoutOldest(rows);
  const data = overTime({ rows, whole, speed: null, measure: measures[0], columns, estimate: null, zone });
  const place = new Map(data.xs.map((x, at) => [x, at]));
  const keys = groups(kept, columns);
  const [, own] = largest(keys);
  const series = measures
    .flatMap((measure) => (measure.kind === "struct" ? parts(kept, keys, measure, data.xs, place) : [{ label: measure.name, ys: sums(measure.adds ? kept : own, measure, data.xs, place) }]))
    .slice(0, LINES)
    .map((one, at) => ({ ...one, tone: TONES[at], dash: at ? [4 + 2 * at, 3] : null }));
  const name = measures.map((measure) => measure.name).join(", ");
  return { ...data, series, sentence: sentence({ xs: data.xs, keys, measure: { name, unit: measures[0].unit, kind: "struct", adds: measures.every((one) => one.adds) }, zone, cut: !whole }) };
}

/** Measures that share an axis: those of one unit, and of values of a similar size. */
export function sharing(measures, rows) {
  const groups = [];
  for (const measure of measures) {
    const size = rows.reduce((most, row) => Math.max(most, ...numbers(row[measure.name])), 0);
    const same = groups.find((one) => one.unit === measure.unit && (size === 0 || one.size === 0 || Math.max(size / one.size, one.size / size) <= SIMILAR));
    if (same === undefined) groups.push({ unit: measure.unit, size, measures: [measure] });
    else same.measures.push(measure);
  }
  return groups.map((one) => one.measures);
}

function numbers(value) {
  if (value === null || value === undefined) return [];
  return (typeof value === "object" ? Object.values(value) : [value]).map((one) => Math.abs(Number(one))).filter(Number.isFinite);
}

function largest(keys) {
  return [...keys].sort(([, one], [, other]) => other.length - one.length)[0] ?? [null, []];
}

/** The bars of rows without a time, each with its batch part if that is known. */
export function byKey({ rows, speed, measure, columns, name }) {
  const tail = speed && new Map(speed.map((row) => [rowId(row, columns), row]));
  return rows
    .filter((row) => Number.isFinite(value(row, measure)))
    .map((row) => {
      const all = value(row, measure);
      const of = tail?.get(rowId(row, columns));
      return { name: name(row), value: all, batch: tail ? all - (of ? value(of, measure) : 0) : null };
    });
}

/** Whether a measure's values can be drawn. */
export function drawable(column) {
  return column.part === "measure" && ["integer", "decimal", "float", "struct"].includes(column.kind);
}

function value(row, measure) {
  const found = row[measure.name];
  return found === null || found === undefined ? null : Number(found);
}

function seconds(text) {
  return Date.parse(text) / 1000;
}

/** Where each window ends, or the next one begins if that is earlier. */
function endsOf(rows, xs, place) {
  const ends = xs.map((x) => x);
  for (const row of rows) {
    const at = place.get(seconds(row.window_start));
    ends[at] = Math.max(ends[at], seconds(row.window_end));
  }
  return ends.map((end, at) => Math.min(end, xs[at + 1] ?? end));
}

/** The oldest window may be incomplete: other pages may have more of its rows. */
function withoutOldest(rows) {
  const oldest = rows.reduce((found, row) => (found === null || row.window_start < found ? row.window_start : found), null);
  return rows.filter((row) => row.window_start !== oldest);
}

function groups(rows, columns) {
  const keys = columns.filter((column) => column.part === "key");
  const found = new Map();
  for (const row of rows) {
    const name = keys.map((key) => (row[key.name] === null ? "NULL" : String(row[key.name]))).join(" \u00b7 ");
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(row);
  }
  return found;
}

function sums(rows, measure, xs, place) {
  const found = xs.map(() => null);
  for (const row of rows) {
    const at = place.get(seconds(row.window_start));
    const one = value(row, measure);
    if (at !== undefined && one !== null) found[at] = (found[at] ?? 0) + one;
  }
  return found;
}

function stacked(rows, speed, measure, xs, place) {
  const all = sums(rows, measure, xs, place);
  if (speed === null) return [{ label: measure.name, ys: all, tone: "batch", bars: true }];
  const tail = sums(speed, measure, xs, place);
  const batch = all.map((one, at) => (one === null ? null : one - (tail[at] ?? 0)));
  return [
    { label: "realtime part", ys: all, told: tail, tone: "realtime", bars: true },
    { label: "batch part", ys: batch, tone: "batch", bars: true },
  ];
}

function lines(rows, keys, measure, xs, place, estimate) {
  if (measure.kind === "struct") return parts(rows, keys, measure, xs, place);
  const most = [...keys].sort(([, one], [, other]) => other.length - one.length).slice(0, LINES);
  const alone = most.length === 1;
  return most.map(([name, own], at) => {
    const ys = sums(own, measure, xs, place);
    const relative = alone && estimate && RELATIVE.has(estimate.kind) ? estimate.error : null;
    const band = relative === null ? null : [ys.map((y) => y && y * (1 - relative)), ys.map((y) => y && y * (1 + relative))];
    return { label: alone ? measure.name : name, ys, tone: TONES[at], dash: at ? [4 + 2 * at, 3] : null, band };
  });
}

/** A line for each part of a struct, such as quantiles, of the key with the most rows. */
function parts(rows, keys, measure, xs, place) {
  const [, own] = largest(keys);
  const names = [...new Set(own.flatMap((row) => Object.keys(row[measure.name] ?? {})))];
  return names.slice(0, LINES).map((name, at) => {
    const flat = own.map((row) => ({ ...row, [measure.name]: row[measure.name]?.[name] ?? null }));
    return { label: `${measure.name} ${name}`, ys: sums(flat, measure, xs, place), tone: TONES[at], dash: at ? [4 + 2 * at, 3] : null };
  });
}

function sentence({ xs, keys, measure, zone, cut, shownKeys }) {
  if (!xs.length) return "No data to draw.";
  const text = (x) => zoned(new Date(x * 1000).toISOString().replace(/\.\d+/, ""), zone);
  const over = measure.adds
    ? keys.size > 1
      ? `, the sum over ${number(keys.size)} keys`
      : ""
    : keys.size > 1
      ? measure.kind === "struct"
        ? `, of the key with the most windows, of ${number(keys.size)} keys`
        : `, of ${number(shownKeys)} of ${counted(keys.size, "key")}`
      : "";
  const unit = measure.unit ? ` in ${measure.unit}` : "";
  return `${measure.name}${unit} of ${counted(xs.length, "window")} from ${text(xs[0])} to ${text(xs.at(-1))}${zone === "UTC" ? " UTC" : ""}${over}${cut ? "; older windows are not shown" : ""}.`;
}
