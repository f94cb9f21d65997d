// The chart of one measure of a view, and the choice of the measure.

import { ask } from "../lib/ask.js";
import { fill, h } from "../lib/dom.js";
import { counted } from "../lib/format.js";
import { byKey, drawable, overTime } from "../lib/picture.js";
import { hasTime, layerOf } from "../lib/question.js";
import { chosenZone } from "../lib/zone.js";
import { bars } from "./bars.js";
import { chart } from "./chart.js";
import { field } from "./section.js";
import { plain } from "./value.js";

const MOST_ROWS = 5000;
const BARS = 15;

/** The picture of a view; `load` requests the rows of an address and returns a function that draws them, `choose` gets a measure's name. */
export function picture(view, signal, choose) {
  const measures = view.columns.filter(drawable);
  const timed = hasTime(view);
  const select = h("select", { on: { change: () => choose(select.value) } }, measures.map((one) => h("option", { value: one.name }, one.name)));
  const canvas = h("div", {});
  const lines = timed ? chart({ label: `Chart of ${view.name}`, signal }) : null;
  const node = measures.length ? h("section", { class: "picture", "aria-label": "Chart" }, field("chart", select), lines?.figure ?? canvas) : h("section", { hidden: true });

  async function load(rowsOf, query, most, own) {
    if (!measures.length) return () => {};
    const named = query.get("chart");
    const measure = measures.find((one) => one.name === named) ?? measures[0];
    const nested = measure.kind === "struct";
    const order = timed ? "-window_start" : nested ? null : `-${measure.name}`;
    const asked = { measures: measure.name, order, limit: timed ? Math.min(MOST_ROWS, most) : BARS };
    const whole = await ask(rowsOf(asked), { signal: own });
    const speed = measure.adds && layerOf(query) === "merged" ? await tail(rowsOf, asked, whole, most, own) : null;
    return () => {
      select.value = measure.name;
      const of = { rows: whole.rows, speed, measure, columns: view.columns };
      const estimate = whole.provenance.exactness.columns[measure.name]?.find((one) => one.reason === "estimate");
      if (timed) lines.draw(overTime({ ...of, whole: whole.next === null, estimate, zone: chosenZone(query, view) }));
      else fill(canvas, bars({ label: `Chart of ${view.name}`, rows: byKey({ ...of, name: (row) => keysOf(view, row) }), sentence: sentence(measure, whole) }));
    };
  }
  return { node, load };
}

/** The realtime part of the same rows, null if it is incomplete or of another snapshot. */
async function tail(rowsOf, asked, whole, most, signal) {
  const found = await ask(rowsOf({ ...asked, layer: "speed", limit: Math.min(MOST_ROWS, most) }), { signal });
  const [one, other] = [whole.provenance, found.provenance];
  // A token that is restricted to rows gets no position, so the page cannot compare the snapshots of both.
  const same = one.realtime !== null && one.publication === other.publication && JSON.stringify(one.realtime) === JSON.stringify(other.realtime);
  return same && found.next === null ? found.rows : null;
}

function keysOf(view, row) {
  const named = view.keys.map((key) => h("bdi", {}, plain(row[key])));
  return named.length ? named.flatMap((one, at) => (at ? [" \u00b7 ", one] : [one])) : "all";
}

function sentence(measure, whole) {
  const unit = measure.unit ? ` in ${measure.unit}` : "";
  return `${measure.name}${unit}: ${whole.total > BARS ? `the ${BARS} greatest of ` : ""}${counted(whole.total, "row")}.`;
}
