// What an answer's provenance says, in words: what is counted, up to where, and how exact it is.

import { h } from "../lib/dom.js";
import { ago, number, percent, second, time } from "../lib/format.js";
import { total } from "../lib/positions.js";
import { badge, facts } from "./section.js";

/** The provenance as facts. */
export function answered(told) {
  const { approximate, rejected, gaps } = told;
  return h(
    "div",
    { class: "answered" },
    facts({
      Answer: told.exact ? badge("exact", "good") : badge("approximate", "warn"),
      Publication: number(told.publication),
      "Below the cut": h("span", {}, h("span", { class: "swatch batch" }), number(total(told.cut))),
      "From the cut on": told.layer === "batch" ? null : h("span", {}, h("span", { class: "swatch realtime" }), number(Math.max(0, total(told.realtime) - total(told.cut)))),
      "Newest event": told.newest === null ? "none" : h("time", { datetime: told.newest, title: time(told.newest) }, ago(told.newest)),
      Watermark: told.watermark === null ? "none" : h("time", { datetime: told.watermark }, second(told.watermark)),
      "Late, after final": told.after_final === null ? null : number(told.after_final),
      Rejected: rejected && Object.keys(rejected).length ? Object.entries(rejected).map(([why, count]) => `${why} ${number(count)}`).join(", ") : null,
    }),
    Object.keys(approximate).length
      ? h("p", { class: "note" }, "Estimates: ", Object.entries(approximate).map(([name, how], at) => [at ? "; " : "", h("b", {}, name), ` ${error(how)}`]), ".")
      : null,
    gaps.length ? h("p", { class: "problem" }, `The log lost offsets that would count: ${gaps.map((gap) => `${gap.name} (${gap.reason})`).join(", ")}.`) : null,
    told.horizon_s === null ? null : h("p", { class: "note" }, `Copies that came more than ${number(told.horizon_s)} s after their event count until the next recompute.`),
  );
}

/** How far an estimate may be off, in words. */
export function error({ kind, error: size, confidence }) {
  const sure = confidence ? ` at ${percent(confidence)} confidence` : "";
  if (size === null) return kind === "order" ? "up to rounding of doubles" : "computed from estimates";
  if (kind === "kll") return `\u00b1${percent(size)} of rank${sure}`;
  if (kind === "frequent") return `\u00b1${percent(size)} of all values`;
  return `\u00b1${percent(size)}${sure}`;
}
