// The sinks: whether each runs, and how far its target is behind the answers.

import { h, sentence } from "../lib/dom.js";
import { ago, counted, number, second, span } from "../lib/format.js";
import { total } from "../lib/positions.js";
import { badge, section } from "./section.js";
import { table } from "./table.js";

const TONES = { failing: "bad", running: "good" };

/** A section with these sinks, null without any. */
export function sinks(every) {
  if (!every.length) return null;
  const columns = [
    { name: "sink", head: true, cell: (one) => one.sink },
    { name: "view", cell: (one) => h("bdi", {}, one.view) },
    { name: "state", cell: (one) => badge(one.state, TONES[one.state] ?? "plain") },
    { name: "position", cell: (one) => (one.position === null ? "" : h("span", { title: one.token }, number(total(one.position)))) },
    { name: "behind", cell: (one) => (one.lag === null ? "" : `${counted(one.lag, "offset")}${one.lag_s ? `, ${span(one.lag_s)}` : ""}`) },
    { name: "newest step", cell: (one) => (one.at === null ? "" : h("time", { datetime: one.at, title: second(one.at) }, ago(one.at))) },
    { name: "rows written", cell: (one) => (one.rows === null ? "" : number(one.rows)) },
    { name: "errors", cell: (one) => (one.errors === null ? "" : number(one.errors)) },
    { name: "last error", cell: (one) => (one.error === null ? "" : h("span", { class: "advice" }, sentence(one.error))) },
  ];
  return section("Sinks", table({ caption: "Targets that sinks keep equal to views", named: true, rows: every, columns }));
}
