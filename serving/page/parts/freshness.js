// Freshness over the last hours: how old answers were, and how many offsets waited; the worst of each minute, as the server polled it.

import { ask } from "../lib/ask.js";
import { h } from "../lib/dom.js";
import { number, second, span } from "../lib/format.js";
import { chart } from "./chart.js";

const HEIGHT = 130;
const EVERY_MS = 60000;
const SOON_MS = 5000;
const MINUTE_S = 60;

/** A source's two charts, hidden until there is something to draw; `tell` gets the server's samples of the source. */
export function freshness(name, signal) {
  const sync = `freshness of ${name}`;
  const [age, lag] = [`Age of the answers of ${name}`, `Offsets of ${name} that wait`].map((label) => chart({ label, signal, height: HEIGHT, sync }));
  const node = h("div", { class: "throughput", hidden: true }, h("h3", {}, "Freshness"), age.figure, lag.figure);
  return {
    node,
    tell(samples) {
      const data = samples ? lines(samples) : null;
      node.hidden = data === null;
      if (data === null) return;
      age.draw(data.age);
      lag.draw(data.lag);
    },
  };
}

/** The data of both charts; null without a number. A minute without a sample, or with an unknown one, is a gap in the line. */
export function lines({ at, lag, age_s: age }) {
  const times = at.map((one) => Date.parse(one) / 1000);
  const [xs, rows] = [[], []];
  times.forEach((x, n) => {
    if (n && x - times[n - 1] > 1.5 * MINUTE_S) {
      xs.push(times[n - 1] + MINUTE_S);
      rows.push(null);
    }
    xs.push(x);
    rows.push(n);
  });
  if (![...age, ...lag].some((one) => one !== null)) return null;
  const since = `in the ${span(xs.at(-1) - xs[0] + MINUTE_S)} since ${second(at[0])} UTC`;
  const of = (values, label, tone, sentence) => {
    const ys = rows.map((n) => (n === null ? null : values[n]));
    const most = values.reduce((most, one) => (one !== null && (most === null || one > most) ? one : most), null);
    const ends = xs.map((x) => x + MINUTE_S);
    return { xs, ends, from: null, zone: "UTC", series: [{ label, ys, tone }], sentence: most === null ? `Unknown ${since}.` : sentence(most) };
  };
  return {
    age: of(age, "answers were at most this old, in seconds", "realtime", (most) => `Answers were at most ${span(most)} old ${since}.`),
    lag: of(lag, "offsets that answers did not count", "line-1", (most) => `At most ${number(most)} offset${most === 1 ? "" : "s"} waited ${since}.`),
  };
}

/** Gives the samples of all sources once a minute, and sooner while there are none; a request that fails is repeated in silence. */
export function followFreshness(told, signal) {
  let timer = null;
  async function look() {
    timer = null;
    let pause = EVERY_MS;
    try {
      if (!document.hidden) {
        const { sources } = await ask("/freshness", { signal });
        if (Object.values(sources).some((one) => one !== null && !one.at.length)) pause = SOON_MS;
        told(sources);
      }
    } catch {
      // The connection's own sign shows that the server does not answer.
    }
    if (!signal.aborted) timer = setTimeout(look, pause);
  }
  signal.addEventListener("abort", () => clearTimeout(timer));
  look();
}
