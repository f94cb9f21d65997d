// Throughput over the last hours: what each publication added to the cut since the one before, and what the realtime part added since.

import { h } from "../lib/dom.js";
import { number, second, span } from "../lib/format.js";
import { total } from "../lib/positions.js";
import { chart } from "./chart.js";

const HEIGHT = 150;
const MOST_S = 24 * 3600;

/** A source's figure, hidden until there is something to draw; `tell` gets the publications and the source's state. */
export function throughput(name, signal) {
  const lines = chart({ label: `Offsets a second of ${name}`, signal, height: HEIGHT });
  const node = h("div", { class: "throughput", hidden: true }, h("h3", {}, "Throughput"), lines.figure);
  return {
    node,
    tell(publications, state, now) {
      const data = rates(name, publications, state, now);
      // A figure without a width cannot be drawn.
      node.hidden = data === null;
      if (data !== null) lines.draw(data);
    },
  };
}

/** The chart's data: offsets a second between publications, then up to now; null without two positions. `now` is in seconds. */
export function rates(name, publications, state, now) {
  const marks = [];
  const listed = publications.filter((one) => one.cuts?.[name] !== undefined).map((one) => [Date.parse(one.at) / 1000, total(one.cuts[name])]);
  for (const [at, offsets] of listed.sort(([one], [other]) => one - other)) {
    // A rollback returns to an earlier cut, and a promotion keeps it: neither counts anything.
    if (!marks.length || offsets > marks.at(-1)[1]) marks.push([at, offsets]);
  }
  const batch = marks.slice(1).map(([at, offsets], n) => ({ from: marks[n][0], to: at, rate: (offsets - marks[n][1]) / (at - marks[n][0]) }));
  const last = marks.at(-1);
  const since = last && now > last[0] ? [{ from: last[0], to: now, rate: Math.max(0, total(state.realtime) - last[1]) / (now - last[0]), live: true }] : [];
  const shown = [...batch, ...since].filter((one) => one.to > now - MOST_S && one.to > one.from);
  if (!shown.length) return null;
  const ys = (live) => shown.map((one) => (Boolean(one.live) === live ? Number(one.rate.toPrecision(3)) : null));
  const xs = shown.map((one) => one.from);
  return {
    xs,
    ends: shown.map((one) => one.to),
    from: null,
    zone: "UTC",
    series: [
      { label: "batch, between publications", ys: ys(false), tone: "batch", bars: true },
      { label: "speed, since the newest cut", ys: ys(true), tone: "realtime", bars: true },
    ],
    sentence: `Offsets a second over ${span(now - xs[0])}, since ${second(new Date(xs[0] * 1000).toISOString())} UTC; at most ${number(Math.max(...shown.map((one) => Number(one.rate.toPrecision(3)))))}.`,
  };
}
