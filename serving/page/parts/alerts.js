// The alerts: the rows for which each is raised, what receivers have not acknowledged, and the newest edges that ended.

import { ask } from "../lib/ask.js";
import { to } from "../lib/address.js";
import { h, sentence } from "../lib/dom.js";
import { ago, counted, second } from "../lib/format.js";
import { badge, section } from "./section.js";
import { table } from "./table.js";

const EVERY_MS = 5000;
const ENDED = 5;
const TONES = { raised: "bad", corrected: "plain", cleared: "good" };

/** A section with these alerts, null if none has run. */
export function alerts({ alerts: every, recent }) {
  if (!every.length) return null;
  const raised = every.flatMap((one) => one.raised).sort((one, other) => (one.at < other.at ? 1 : -1));
  const ended = recent.filter((edge) => edge.kind !== "raised").slice(0, ENDED);
  const columns = [
    { name: "alert", head: true, cell: (edge) => edge.alert },
    { name: "state", cell: (edge) => badge(edge.kind, TONES[edge.kind]) },
    { name: "text", cell: (edge) => h("bdi", {}, edge.text) },
    { name: "view", cell: (edge) => h("a", { href: to(["views", edge.view]) }, h("bdi", {}, edge.view)) },
    { name: "row", cell: (edge) => h("bdi", {}, Object.entries(edge.place).map(([name, value]) => `${name} ${value}`).join(", ")) },
    { name: "because of", cell: (edge) => edge.because },
    { name: "when", cell: (edge) => h("time", { datetime: edge.at, title: second(edge.at) }, ago(edge.at)) },
  ];
  const unsent = every.flatMap((one) => Object.entries(one.unsent).map(([receiver, number]) => [one, receiver, number]));
  return section(
    "Alerts",
    table({ caption: "Rows for which alerts are raised, and the newest that ended", named: true, rows: [...raised, ...ended], empty: "No alert is raised.", columns }),
    unsent.map(([one, receiver, number]) =>
      h("p", { class: "problem" }, sentence(`Alert ${one.alert}: ${receiver} has not acknowledged ${counted(number, "edge")}${one.faults[receiver] ? `: ${one.faults[receiver]}` : ""}`)),
    ),
  );
}

/** Gives the alerts every few seconds; a request that fails is repeated in silence. */
export function followAlerts(told, signal) {
  let timer = null;
  async function look() {
    timer = null;
    try {
      if (!document.hidden) told(await ask("/alerts", { signal }));
    } catch {
      // The connection's own sign shows that the server does not answer.
    }
    if (!signal.aborted) timer = setTimeout(look, EVERY_MS);
  }
  signal.addEventListener("abort", () => clearTimeout(timer));
  look();
}
