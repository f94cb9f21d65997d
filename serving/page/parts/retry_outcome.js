// How the project folder's definitions decode quarantined records.

import { to } from "../lib/address.js";
import { h } from "../lib/dom.js";
import { counted, number, visible } from "../lib/format.js";
import { badge } from "./section.js";
import { table } from "./table.js";
import { plain } from "./value.js";

/** The outcome of a retry. */
export function retryOutcome(told) {
  const { tried, would_be: read, would_fail: failed } = told;
  const next = told.decoder_changed
    ? ["The decoder differs from the published one: ", h("a", { href: to(["releases"]) }, "apply"), " decodes all records again."]
    : "The decoder is the published one, so `apply` does not change these records.";
  return h(
    "div",
    {},
    h("p", {}, badge(`${number(read.length)} of ${counted(tried, "record")} would be read`, read.length ? "good" : "plain"), ` as ${counted(told.events, "event")}. `, next),
    read.length
      ? table({
          caption: "Records that would be events",
          rows: read,
          columns: [place(), { name: "events", number: true, cell: (one) => number(one.number) }, { name: "first", cell: (one) => h("bdi", { class: "text bytes" }, one.events.map((event) => plain(event)).join("\n")) }],
        })
      : null,
    failed.length
      ? table({
          caption: "Records that would be in quarantine again",
          rows: failed,
          columns: [place(), { name: "reason", cell: (one) => one.reason }, { name: "detail", cell: (one) => h("bdi", { class: "text" }, visible(one.detail ?? "")) }],
        })
      : null,
  );
}

/** A reject's place in the log, as the command line takes it. */
export function placeText(one) {
  return `${one.topic}/${one.partition}:${one.offset}${one.index === null ? "" : `#${one.index}`}`;
}

function place() {
  return { name: "place", head: true, cell: (one) => h("bdi", { class: "place" }, placeText(one)) };
}
