// Publications as a table: what was live since when, by whom and why.

import { h } from "../lib/dom.js";
import { ago, counted, number, second } from "../lib/format.js";
import { total } from "../lib/positions.js";
import { badge } from "./section.js";
import { table } from "./table.js";

/** The table, the newest first; `live` is the number of the live publication, `actions` returns a node for the end of each row. */
export function publications(list, { live = null, actions = null } = {}) {
  const columns = [
    { name: "publication", head: true, cell: (one) => h("span", {}, number(one.publication), one.publication === live ? [" ", badge("live", "good")] : null) },
    { name: "kind", cell: (one) => one.kind },
    { name: "at", cell: (one) => h("time", { datetime: one.at, title: ago(one.at) }, second(one.at)) },
    { name: "by", cell: (one) => h("bdi", {}, one.by) },
    { name: "release", number: true, cell: (one) => number(one.release) },
    { name: "cut", number: true, title: "Offsets below the cuts of all sources", cell: (one) => (one.cuts === null ? "" : number(Object.values(one.cuts).reduce((sum, cut) => sum + total(cut), 0))) },
    { name: "changed", cell: (one) => changed(one.diff) },
    { name: "why", cell: (one) => h("bdi", {}, [one.why, ...(one.gaps ?? []).map((gap) => `despite ${gap}`)].filter(Boolean).join("; ")) },
  ];
  if (actions !== null) columns.push({ name: "actions", cell: actions });
  return table({ caption: "Publications, the newest first", named: true, rows: list, columns, empty: "Nothing is published yet." });
}

function changed(diff) {
  if (diff === null) return "";
  const told = Object.entries(diff).filter(([, view]) => view.status !== "unchanged" && view.status !== "same");
  return told.map(([name, view]) => {
    // If keys or windows differ, no row matches.
    const matched = view.matched ? `${number(view.changed)} of ${counted(view.matched, "row")}, ` : "";
    const rows = view.matched === undefined || view.matched === null ? "" : `: ${matched}${number(view.only_new)} new, ${number(view.only_old)} gone`;
    return h("div", {}, h("bdi", {}, name), ` ${view.status}${rows}`);
  });
}
