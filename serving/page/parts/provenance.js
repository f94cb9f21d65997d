// An answer's provenance in words: what it counts, up to where, and how exact it is.

import { h } from "../lib/dom.js";
import { ago, number } from "../lib/format.js";
import { zoned } from "../lib/zone.js";
import { total } from "../lib/positions.js";
import { exactness } from "./exactness.js";
import { facts } from "./section.js";

/** The provenance as facts, with times in a zone. */
export function provenanceFacts(told, zone) {
  const { rejected } = told;
  const { every, marked, columns } = told.exactness;
  return h(
    "div",
    { class: "answered" },
    facts({
      // Null for a view without a measure that is exact by itself: the reasons of its columns are below.
      Rows: told.exactness.rows && exactness(told.exactness.rows),
      Publication: number(told.publication),
      // Null for a token that is restricted to rows: these counts are of all rows.
      "Below the cut": told.cut === null ? null : h("span", {}, h("span", { class: "swatch batch" }), number(total(told.cut))),
      "From the cut on": told.cut === null || told.layer === "batch" ? null : h("span", {}, h("span", { class: "swatch realtime" }), number(Math.max(0, total(told.realtime) - total(told.cut)))),
      "Newest event": told.newest === null ? "none" : h("time", { datetime: told.newest, title: zoned(told.newest, zone) }, ago(told.newest)),
      Watermark: told.watermark === null ? "none" : h("time", { datetime: told.watermark }, zoned(told.watermark.replace(/\.\d+/, ""), zone)),
      "Late, after final": told.after_final === null ? null : number(told.after_final),
      "Ahead of their records": told.ahead ? number(told.ahead) : null,
      "Windows from": told.kept_from === null ? null : h("time", { datetime: told.kept_from }, zoned(told.kept_from, zone)),
      Rejected: rejected && Object.keys(rejected).length ? Object.entries(rejected).map(([why, count]) => `${why} ${number(count)}`).join(", ") : null,
    }),
    history(told, zone).map((text) => h("p", { class: "note" }, text)),
    [...every, ...marked].map((reason) => h("p", { class: reason.label === "incomplete" ? "problem" : "note" }, `${sentence(reason.says)}.`)),
    Object.entries(columns).map(([name, reasons]) => h("p", { class: "note" }, h("b", {}, name), `: ${reasons.map((reason) => reason.says).join("; ")}.`)),
  );
}

// Null for an answer that stands on the source's topics alone, and for a token that is restricted to rows.
function history({ start, history: before }, zone) {
  const { tables, log_from, expiry } = before ?? { tables: [], log_from: null, expiry: null };
  return [
    start === null ? null : `History begins ${start.declared}: earlier records do not count.`,
    ...tables.map((one) => `History begins with ${number(one.rows)} rows of table ${one.table}${one.version ? ` version ${one.version}` : ""}.`),
    log_from === null ? null : `Of the topics events from ${zoned(log_from, zone)} on count, of tables those before.`,
    expiry === null ? null : `${number(expiry.offsets)} offsets expired${expiry.until === null ? "" : `, with events until ${zoned(expiry.until, zone)}`}. No window that stays needs them.`,
  ].filter(Boolean);
}

function sentence(text) {
  return text[0].toUpperCase() + text.slice(1);
}
