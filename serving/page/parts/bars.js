// Bars by name, for views without a time axis: the largest values, each with its batch and realtime part.

import { h } from "../lib/dom.js";
import { number } from "../lib/format.js";

/** A list of bars; each has a `name` (a node), a `value`, and a `batch` part where the measure adds up. */
export function bars({ label, rows, sentence }) {
  const most = Math.max(...rows.map((row) => Math.abs(row.value)), Number.MIN_VALUE);
  return h(
    "figure",
    { class: "chart" },
    h("ol", { class: "bars", "aria-label": label }, rows.map((row) => bar(row, most))),
    h("figcaption", {}, sentence),
  );
}

function bar(row, most) {
  const whole = h("span", { class: row.batch === null ? "part plain" : "part realtime" });
  whole.style.width = `${(100 * Math.abs(row.value)) / most}%`;
  const batch = row.batch === null ? null : h("span", { class: "part batch" });
  if (batch) batch.style.width = `${(100 * Math.abs(row.batch)) / most}%`;
  return h("li", {}, h("span", { class: "name" }, row.name), h("span", { class: "track" }, whole, batch), h("span", { class: "value" }, number(row.value)));
}
