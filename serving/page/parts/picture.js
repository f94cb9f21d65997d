// The charts of some measures of a view, and the choice of the measures.

import { ask } from "../lib/ask.js";
import { fill, h } from "../lib/dom.js";
import { counted } from "../lib/format.js";
import { byKey, drawable, overTime, sharing, together } from "../lib/picture.js";
import { hasTime, layerOf } from "../lib/question.js";
import { chosenZone } from "../lib/zone.js";
import { bars } from "./bars.js";
import { chart } from "./chart.js";
import { checks } from "./checks.js";
import { plain } from "./value.js";

const MOST_ROWS = 5000;
const BARS = 15;

/** The picture of a view; `load` requests the rows of an address and returns a function that draws them, `choose` gets the measures' names. */
export function picture(view, signal, choose) {
  const measures = view.columns.filter(drawable);
  const timed = hasTime(view);
  const picker = checks("chart", measures.map((one) => one.name), (names) => choose(names.length ? names : [measures[0].name]));
  const place = h("div", { class: "panels" });
  const panels = [];
  const node = h("section", { class: "picture", "aria-label": "Chart", hidden: !measures.length }, measures.length > 1 ? picker.node : null, place);

  /** The panel at a place: a chart each, with one pointer over all. */
  function panel(at) {
    panels[at] ??= chart({ label: `Chart of ${view.name}`, signal, sync: view.name });
    return panels[at];
  }

  async function load(rowsOf, query, most, own) {
    if (!measures.length) return () => {};
    const named = query.get("chart")?.split(",") ?? [];
    const some = measures.filter((one) => named.includes(one.name));
    const chosen = some.length ? some : [measures[0]];
    const draw = timed ? await overWindows(chosen, rowsOf, query, most, own) : await overKeys(chosen, rowsOf, query, most, own);
    return () => {
      picker.set(chosen.map((one) => one.name));
      draw();
    };
  }

  async function overWindows(chosen, rowsOf, query, most, own) {
    const asked = { measures: chosen.map((one) => one.name).join(","), order: "-window_start", limit: Math.min(MOST_ROWS, most) };
    const whole = await ask(rowsOf(asked), { signal: own });
    const groups = sharing(chosen, whole.rows);
    const alone = groups.filter((group) => group.length === 1).flat();
    const speed = alone.some((one) => one.adds) && layerOf(query) === "merged" ? await tail(rowsOf, asked, whole, most, own) : null;
    const of = { rows: whole.rows, whole: whole.next === null, columns: view.columns, zone: chosenZone(query, view) };
    return () => {
      fill(place, groups.map((_, at) => panel(at).figure));
      groups.forEach((group, at) => {
        const [measure] = group;
        const estimate = whole.provenance.exactness.columns[measure.name]?.find((one) => one.reason === "estimate");
        panel(at).draw(group.length > 1 ? together({ ...of, measures: group }) : overTime({ ...of, measure, speed: measure.adds ? speed : null, estimate }));
      });
    };
  }

  async function overKeys(chosen, rowsOf, query, most, own) {
    const found = await Promise.all(
      chosen.map(async (measure) => {
        const asked = { measures: measure.name, order: measure.kind === "struct" ? null : `-${measure.name}`, limit: BARS };
        const whole = await ask(rowsOf(asked), { signal: own });
        const speed = measure.adds && layerOf(query) === "merged" ? await tail(rowsOf, asked, whole, most, own) : null;
        const rows = byKey({ rows: whole.rows, speed, measure, columns: view.columns, name: (row) => keysOf(view, row) });
        return { label: `Chart of ${view.name}`, rows, sentence: sentence(measure, whole) };
      }),
    );
    return () => fill(place, found.map(bars));
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
