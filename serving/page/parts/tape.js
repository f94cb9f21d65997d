// A source's log as a tape, one line per partition: counted by batch, counted by speed, and not counted yet.

import { fill, h } from "../lib/dom.js";
import { counted as several, number } from "../lib/format.js";
import { partitions } from "../lib/positions.js";

const MOST = 32;

/** The tape, and `tell`, which draws a source's state. The scale is square-root, so a short tail stays visible beside years. */
export function tape() {
  const lines = h("div", { class: "tape" });
  const note = h("p", { class: "note" });
  const node = h(
    "details",
    { class: "positions", open: true },
    h("summary", {}, "Positions by partition"),
    h("ul", { class: "legend" }, key("batch", "batch: below the cut"), key("realtime", "speed: from the cut on"), key("waiting", "not counted yet")),
    lines,
    note,
  );

  function tell(state) {
    const found = partitions({ cut: state.cut, realtime: state.realtime, archive: state.archive?.end, end: state.log.end });
    fill(lines, found.slice(0, MOST).map(line));
    const left = found.length - MOST;
    fill(note, left > 0 ? `${several(left, "more partition")} ${left === 1 ? "is" : "are"} counted above and not drawn.` : found.length ? "Square-root scale" : "Nothing is counted yet.");
  }
  return { node, tell };
}

function key(tone, text) {
  return h("li", {}, h("span", { class: `swatch ${tone}` }), text);
}

function line({ topic, partition, cut = 0, realtime = 0, archive = null, end = null }) {
  const counted = Math.max(0, realtime - cut);
  const waiting = end === null ? 0 : Math.max(0, end - Math.max(cut, realtime));
  const told = [`cut ${number(cut)}`, `counted ${number(Math.max(cut, realtime))}`, archive === null ? null : `archive ${number(archive)}`, end === null ? null : `end ${number(end)}`];
  return h(
    "div",
    { class: "partition" },
    h("span", { class: "name", title: `topic ${topic}` }, `partition ${partition}`),
    h("span", { class: "track", "aria-hidden": "true" }, part("batch", cut), part("realtime", counted), part("waiting", waiting)),
    h("span", { class: "offsets" }, told.filter(Boolean).join(" \u00b7 ")),
  );
}

function part(tone, offsets) {
  const one = h("span", { class: `part ${tone}` });
  one.style.flexGrow = String(Math.sqrt(offsets));
  one.hidden = offsets === 0;
  return one;
}
