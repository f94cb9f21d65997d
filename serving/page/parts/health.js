// The health of every part of the installation: its state, since when, and how fresh it is.

import { h, sentence } from "../lib/dom.js";
import { ago, second, span } from "../lib/format.js";
import { badge } from "./section.js";
import { table } from "./table.js";

/** The parts as a table. */
export function health(parts) {
  return table({
    caption: "Parts of the installation",
    named: true,
    rows: parts,
    empty: "No part reports its state.",
    columns: [
      { name: "part", head: true, cell: (one) => one.part },
      { name: "state", cell: (one) => badge(one.state.replaceAll("_", " "), one.red ? "bad" : one.state === "running" ? "good" : "plain") },
      { name: "since", cell: (one) => (one.since === null ? "" : h("time", { datetime: one.since, title: second(one.since) }, ago(one.since))) },
      { name: "last progress", cell: (one) => (one.age_s === null ? "" : h("time", {}, one.age_s < 1.5 ? "now" : `${span(one.age_s)} ago`)) },
      { name: "what to do", cell: (one) => h("span", { class: "advice" }, sentence([one.why, one.advice].filter(Boolean).join(". "))) },
    ],
  });
}
