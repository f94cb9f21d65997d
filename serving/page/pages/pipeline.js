// The pipeline now: each source's log, the positions of batch and speed in it, and the publications.

import { ask } from "../lib/ask.js";
import { to } from "../lib/address.js";
import { fill, h, refill } from "../lib/dom.js";
import { ago, counted, number, second, time } from "../lib/format.js";
import { total } from "../lib/positions.js";
import { alerts, followAlerts } from "../parts/alerts.js";
import { sinks } from "../parts/sinks.js";
import { standingReleases } from "../parts/standing_releases.js";
import { flow } from "../parts/flow.js";
import { followFreshness, freshness } from "../parts/freshness.js";
import { health } from "../parts/health.js";
import { lineage } from "../parts/lineage.js";
import { obstacle } from "../parts/problem.js";
import { publications } from "../parts/publications.js";
import { badge, facts, heading, section } from "../parts/section.js";
import { table } from "../parts/table.js";
import { tape } from "../parts/tape.js";
import { throughput } from "../parts/throughput.js";

const NEWEST = 12;
const RECENT = 100;
const REDRAWN_MS = 10000;
const RATE_S = 10;

export function title() {
  return "Pipeline";
}

export function show(place, _, app, signal) {
  const summary = h("p", { class: "summary" });
  const sources = h("div", { class: "sources" });
  const views = h("div", {});
  const beside = h("div", {});
  const parts = h("div", {});
  const out = h("div", {});
  const raised = h("div", {});
  const lines = h("div", { class: "lineages" });
  const topics = new Map();
  let lined = "";
  let recent = [];
  const history = h("div", { class: "waiting" }, "\u2026");
  const drawn = new Map();
  let fresh = {};
  let published = null;
  fill(place, heading("Pipeline", summary), sources, section("Health", parts), raised, beside, out, section("Views", views), section("Lineage", lines), section("Publications", history));

  async function tellHistory(live) {
    try {
      const found = await ask(`/history?limit=${RECENT}`, { signal });
      recent = found.publications;
      fill(history, publications(recent.slice(0, NEWEST), { live }));
    } catch (error) {
      if (!signal.aborted) fill(history, obstacle(error, "The list of publications"));
    }
    history.className = "";
  }

  function tellLineage(status) {
    const of = Object.keys(status.sources).map((name) => [name, topics.get(name) ?? [], Object.entries(status.views).filter(([, view]) => view.source.split("+").includes(name))]);
    const text = JSON.stringify(of.map(([name, from, views]) => [name, from, views.map(([view, { release, publication }]) => [view, release, publication])]));
    if (text === lined) return;
    lined = text;
    refill(lines, of.map((one) => lineage(...one)));
  }

  ask("/sources", { signal })
    .then((found) => found.sources.forEach((one) => topics.set(one.name, one.topics)))
    // Without it the picture begins at the source.
    .catch(() => {});

  followFreshness((found) => {
    fresh = found;
    drawn.forEach((one, name) => one.tellAge(found[name]));
  }, signal);

  // Edges have whole rows, so a token that is restricted to rows gets none.
  if (app.me.verbs.includes("read") && !app.me.rows.length) followAlerts((found) => refill(raised, alerts(found)), signal);

  app.status.subscribe((found) => {
    const { status } = found;
    if (status === null) {
      fill(summary, found.why ?? "");
      return;
    }
    fill(summary, "Publication ", h("strong", {}, number(status.publication)), " of release ", h("strong", {}, number(status.release)), `, made ${ago(status.at)}`);
    const names = Object.keys(status.sources);
    for (const name of names) {
      if (!drawn.has(name)) {
        drawn.set(name, source(name, signal, () => recent));
        sources.append(drawn.get(name).node);
        drawn.get(name).tellAge(fresh[name]);
      }
      drawn.get(name).tell(status.sources[name], status, found.at);
    }
    for (const [name, one] of drawn) {
      if (names.includes(name)) continue;
      one.node.remove();
      drawn.delete(name);
    }
    if (!names.length) fill(sources, h("p", { class: "note" }, "This token may not read any view."));
    refill(views, listed(status));
    refill(parts, health(status.parts));
    tellLineage(status);
    refill(beside, standingReleases(status.standing));
    refill(out, sinks(status.sinks));
    if (status.publication !== published) {
      if (published !== null) app.say(`Publication ${status.publication} is live.`);
      published = status.publication;
      tellHistory(published);
    }
  }, signal);
}

/** One source's picture; `tell` updates it. */
function source(name, signal, recent) {
  const diagram = flow();
  const positions = tape();
  const pace = throughput(name, signal);
  const age = freshness(name, signal);
  const told = h("div", {});
  const why = h("div", { class: "positions" });
  const problems = h("div", { "aria-live": "polite" });
  const node = h("section", { class: "source" }, h("h2", {}, "Source ", h("bdi", {}, name)), problems, diagram.node, positions.node, pace.node, age.node, told, why);
  const seen = [];
  let said = null;
  let paced = { at: 0, of: null };

  function tell(state, status, at) {
    const hidden = state.realtime === null;
    diagram.node.hidden = hidden;
    positions.node.hidden = hidden;
    if (!hidden) draw(state, status, at);
    fill(
      told,
      hidden ? h("p", { class: "note" }, "Positions count the events of all rows; a token that is restricted to rows does not see them.") : null,
      facts({
        Watermark: state.watermark === null ? null : h("time", { datetime: state.watermark }, second(state.watermark)),
        "Newest event": state.newest === null ? null : h("time", { datetime: state.newest, title: time(state.newest) }, ago(state.newest)),
        "Until loss": state.until_loss?.warning,
        "Open transactions": heldBack(state.log?.open_transactions ?? []),
        "Hot tail": hotTail(state.hot),
      }),
    );
    const gaps = state.gaps.map((gap) => gap.warning);
    const held = (state.log?.open_transactions ?? []).map((one) => one.warning);
    const differs = state.hot?.mismatched ? `${counted(state.hot.mismatched, "row")} of the hot tail differed from the commits that followed.` : null;
    const wrong = [state.problem, state.rejected?.warning, differs, ...gaps, ...held, state.behind_bridge ? "A batch run advanced past events that the speed layer had not processed." : null].filter(Boolean);
    const unknown = state.log?.problem ?? null;
    const now = [...wrong, unknown].join("\n");
    if (now === said) return;
    said = now;
    fill(problems, wrong.map((text) => h("p", { class: "problem" }, text)));
    fill(why, unknown ? h("details", {}, h("summary", {}, "Why the log\u2019s end is not known"), h("p", {}, unknown)) : null);
  }

  function draw(state, status, at) {
    const rate = perSecond(seen, total(state.realtime), at);
    const views = Object.values(status.views).filter((view) => view.source.split("+").includes(name)).length;
    diagram.tell(figures(state, status, rate, views));
    positions.tell(state);
    if (paced.of === recent() && at - paced.at < REDRAWN_MS) return;
    paced = { at, of: recent() };
    pace.tell(paced.of, state, at / 1000);
  }
  return { node, tell, tellAge: age.tell };
}

function figures(state, status, rate, views) {
  const [cut, end] = [total(state.cut), total(state.realtime)];
  return {
    log: state.log.end ? { value: number(total(state.log.end)), what: "offsets up to the log\u2019s end" } : { value: number(end), what: "offsets counted" },
    lag: state.log.lag,
    end: state.log.end !== null,
    archive: state.archive ? `archive up to ${number(total(state.archive.end))}` : "",
    cut: { value: number(cut), what: "offsets below the cut" },
    realtime: { value: number(Math.max(0, end - cut)), what: "offsets from the cut on" },
    rate: rate === null ? "" : `${number(Number(rate.toPrecision(3)))} / s`,
    moving: rate !== null && rate > 0,
    answers: { value: counted(views, "view"), what: `publication ${number(status.publication)}` },
    failed: state.problem !== null,
  };
}

/** How many offsets wait behind open transactions, and since when; null if none. */
function heldBack(held) {
  if (!held.length) return null;
  const since = held.map((one) => one.since).filter(Boolean).sort()[0];
  return `${counted(held.reduce((sum, one) => sum + one.offsets, 0), "offset")} not committed yet${since ? `, since ${second(since)}` : ""}`;
}

/** How far a hot tail is ahead of the commits, or why it stands aside; null without one. */
function hotTail(hot) {
  if (hot === null) return null;
  if (hot.aside !== null) return `stands aside: ${hot.aside}`;
  const views = Object.keys(hot.views_aside);
  return `${counted(hot.ahead, "offset")} ahead of the commits${views.length ? `, without ${views.join(", ")}` : ""}`;
}

/** Offsets a second over the last few seconds, null until there are two polls. */
function perSecond(seen, offsets, at) {
  seen.push([at, offsets]);
  while (seen.length > 2 && at - seen[0][0] > RATE_S * 1000) seen.shift();
  const [first, before] = seen[0];
  return at === first ? null : Math.max(0, (1000 * (offsets - before)) / (at - first));
}

function listed(status) {
  return table({
    caption: "Views that this token may read",
    named: true,
    rows: Object.entries(status.views),
    empty: "No views.",
    columns: [
      { name: "view", head: true, cell: ([name]) => h("a", { href: to(["views", name]) }, h("bdi", {}, name)) },
      { name: "below the cut", number: true, cell: ([, state]) => (state.cut === null ? "" : number(total(state.cut))) },
      { name: "from the cut on", number: true, cell: ([, state]) => (state.cut === null ? "" : number(Math.max(0, total(state.realtime) - total(state.cut)))) },
      { name: "newest event", cell: ([, state]) => (state.newest === null ? h("span", { class: "null" }, "none") : h("time", { datetime: state.newest }, ago(state.newest))) },
      { name: "watermark", cell: ([, state]) => (state.watermark === null ? h("span", { class: "null" }, "none") : h("time", { datetime: state.watermark }, second(state.watermark))) },
      { name: "answers", cell: ([, state]) => (state.problem === null ? badge("given", "good") : h("span", {}, badge("failed", "bad"), " ", state.problem)) },
    ],
  });
}
