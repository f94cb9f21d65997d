// Where a number comes from: its row, its parts by layer, the positions that it counts, the release, and how exact it is.

import { ask } from "../lib/ask.js";
import { to } from "../lib/address.js";
import { fill, focusAlike, h, named } from "../lib/dom.js";
import { number } from "../lib/format.js";
import { partitions } from "../lib/positions.js";
import { hasTime, layerOf, rowId } from "../lib/question.js";
import { chosenZone, zoned } from "../lib/zone.js";
import { events } from "./events.js";
import { exactness } from "./exactness.js";
import { problem } from "./problem.js";
import { button, facts } from "./section.js";
import { table } from "./table.js";
import { plain, shown } from "./value.js";

const LAYERS = { batch: "batch part", speed: "realtime part" };
const NEAR_ROWS = 100;

/** A dialog; `open` shows the origin of one value of a row of an answer. Escape closes it, and focus returns to the number. */
export function origin(view, signal) {
  const content = h("div", {});
  const node = h("dialog", { class: "origin", "aria-labelledby": "origin-heading" }, content);

  async function open({ row, column, provenance, query, place }) {
    const from = named(document.activeElement);
    const zone = chosenZone(query, view);
    const layers = h("div", { class: "waiting" }, "\u2026");
    fill(
      content,
      h("header", { class: "heading" }, h("h2", { id: "origin-heading" }, h("bdi", {}, column.name), " = ", exact(row[column.name])), button("Close", () => node.close())),
      facts({
        ...Object.fromEntries(view.keys.map((key) => [key, h("bdi", {}, plain(row[key]))])),
        window: hasTime(view) && row.window_start ? `${zoned(row.window_start, zone)} to ${zoned(row.window_end, zone)}${zone === "UTC" ? " UTC" : ""}` : null,
        unit: column.unit,
      }),
      column.definition ? h("p", {}, h("code", {}, column.definition), " over source ", h("bdi", {}, view.source.split("+").join(" and ")), view.where ? [" where ", h("code", {}, view.where)] : null) : null,
      column.doc ? h("p", { class: "doc" }, column.doc) : null,
      h("h3", {}, "How exact"),
      reasons(row, column, provenance),
      h("h3", {}, "Counted by"),
      layers,
      h("h3", {}, "Events"),
      events({ view, row, column, zone, signal }),
      h("h3", {}, "Positions in the log"),
      positions(provenance),
      facts({ Release: number(provenance.release), Publication: number(provenance.publication), Fingerprint: h("code", {}, provenance.fingerprint.slice(0, 12)) }),
      h("p", {}, h("a", { href: rowAddress(view, row, query), on: { click: () => node.close() } }, "This row alone")),
    );
    // The browser returns the focus to the same element, which is gone if the table was drawn again meanwhile.
    node.onclose = () => place.contains(document.activeElement) || focusAlike(place, from);
    node.showModal();
    if (layerOf(query) !== "merged") fill(layers, `The ${LAYERS[layerOf(query)]} alone.`);
    else fill(layers, await parts(view, row, column, provenance, signal).catch((error) => (signal.aborted ? null : problem(error))));
    layers.className = "";
  }
  signal.addEventListener("abort", () => node.close());
  return { node, open };
}

/** A value with all its digits, in groups. */
function exact(value) {
  return typeof value === "number" && !Number.isInteger(value) ? String(value) : shown(value, "decimal");
}

function reasons(row, column, { exactness: told }) {
  const own = [...told.every, ...told.marked.filter((reason) => row._exactness?.includes(reason.reason)), ...(told.columns[column.name] ?? [])];
  if (!own.length) return h("p", {}, exactness("exact"), " Every event up to these positions is counted once.");
  return own.map((reason) => h("p", {}, exactness(reason.label), ` ${reason.says}.`));
}

/** What each layer counts of the value; nothing of another snapshot. */
async function parts(view, row, column, provenance, signal) {
  const asked = rowQuery(view, row);
  asked.set("measures", column.name);
  asked.set("limit", NEAR_ROWS);
  const found = await Promise.all(
    Object.keys(LAYERS).map((layer) => {
      const one = new URLSearchParams(asked);
      one.set("layer", layer);
      return ask(`/views/${encodeURIComponent(view.name)}/rows?${one}`, { signal });
    }),
  );
  const [batch, speed] = found.map((one) => one.provenance);
  const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
  const moved = batch.publication !== provenance.publication || speed.publication !== provenance.publication || !same(speed.realtime, provenance.realtime);
  if (moved) return h("p", { class: "note" }, "Events have been counted since this answer. Close this and open it again for the parts of the newest.");
  return facts(
    Object.fromEntries(
      Object.entries(LAYERS).map(([layer, name], at) => {
        const same = found[at].rows.find((one) => rowId(one, view.columns) === rowId(row, view.columns));
        return [name, h("span", {}, h("span", { class: `swatch ${layer === "batch" ? "batch" : "realtime"}` }), same === undefined ? "nothing" : exact(same[column.name]))];
      }),
    ),
  );
}

function positions(provenance) {
  if (provenance.cut === null) return h("p", { class: "note" }, "Positions count the events of all rows; a token that is restricted to rows does not see them.");
  const offset = (one, name) => (one[name] === undefined ? "" : number(one[name]));
  return table({
    caption: "Next offset to count, by partition",
    named: true,
    rows: partitions({ cut: provenance.cut, realtime: provenance.realtime, hot: provenance.hot }),
    empty: "Nothing is counted yet.",
    columns: [
      { name: "topic id", cell: (one) => h("bdi", { class: "place" }, one.topic) },
      { name: "partition", head: true, cell: (one) => number(one.partition) },
      { name: "batch", number: true, cell: (one) => offset(one, "cut") },
      { name: "realtime", number: true, cell: (one) => offset(one, "realtime") },
      ...(provenance.hot === null ? [] : [{ name: "hot tail", number: true, cell: (one) => offset(one, "hot") }]),
    ],
  });
}

/** The parameters that select a row's keys and window. */
function rowQuery(view, row) {
  const query = new URLSearchParams();
  for (const key of view.keys) {
    if (row[key] === null) query.append("null", key);
    else query.append(`key.${key}`, String(row[key]));
  }
  if (hasTime(view) && row.window_start) {
    query.set("from", row.window_start);
    query.set("to", row.window_end);
  }
  return query;
}

function rowAddress(view, row, query) {
  const selected = rowQuery(view, row);
  for (const name of ["zone", "chart", "layer", "measures"]) if (query.get(name) !== null) selected.set(name, query.get(name));
  return to(["views", view.name], selected);
}
