// How served answers compared with what each recompute then computed, over time.

import { ask } from "../lib/ask.js";
import { go, to } from "../lib/address.js";
import { fill, h, refill } from "../lib/dom.js";
import { counted, number, percent, second } from "../lib/format.js";
import { chart } from "../parts/chart.js";
import { obstacle } from "../parts/problem.js";
import { badge, facts, field, heading } from "../parts/section.js";
import { sorted, table } from "../parts/table.js";
import { shown } from "../parts/value.js";

const NEWEST = 1000;
const TONES = ["line-1", "line-3", "line-4", "line-5", "line-2"];

export function title() {
  return "Accuracy";
}

export function show(place, address, app, signal) {
  let query = address.query;
  let audits = null;
  let order = { name: "at", direction: "descending" };
  let publication;
  const select = h("select", { on: { change: () => go(to(["accuracy"], new URLSearchParams(select.value ? { view: select.value } : {}))) } });
  const lines = chart({ label: "Error over time", signal, height: 200 });
  const summary = h("div", {});
  const list = h("div", {});
  const content = h("div", { hidden: true }, field("view", select), summary, lines.figure, list);
  const wrong = h("div", { class: "waiting" }, "\u2026");
  fill(
    place,
    heading("Accuracy"),
    h("p", { class: "doc" }, "Every recompute folds the log again and compares the answers served until then. sMAPE is the mean difference relative to both sides, from 0 to 200 %."),
    wrong,
    content,
  );

  async function load() {
    try {
      audits = (await ask(`/audits?limit=${NEWEST}`, { signal })).audits;
    } catch (error) {
      if (!signal.aborted) fill(wrong, obstacle(error, "The history of audits"));
      return;
    } finally {
      wrong.className = "";
    }
    fill(wrong);
    content.hidden = false;
    const names = [...new Set(audits.map((audit) => audit.view))].sort();
    fill(select, h("option", { value: "" }, "all views"), names.map((name) => h("option", { value: name }, name)));
    draw();
  }

  function draw() {
    const view = query.get("view") ?? "";
    select.value = view;
    const chosen = audits.filter((audit) => view === "" || audit.view === view);
    const compared = chosen.filter((audit) => audit.figures !== null);
    const differ = compared.filter((audit) => audit.figures.differ > 0);
    const unmet = newestOf(chosen).filter((one) => one.unmet > 0);
    fill(
      summary,
      facts({
        Compared: `${counted(compared.reduce((sum, audit) => sum + audit.figures.rows, 0), "answer")} in ${counted(new Set(compared.map((audit) => audit.at)).size, "run")}`,
        "Beyond tolerance": differ.length ? badge(number(differ.reduce((sum, audit) => sum + audit.figures.differ, 0)), "warn") : badge("none", "good"),
        "Not comparable": chosen.some((audit) => audit.obstacle) ? number(chosen.filter((audit) => audit.obstacle).length) : null,
        "Not as expected": unmet.length ? badge(counted(unmet.length, "condition"), unmet.some((one) => one.severity === "stop") ? "bad" : "warn") : null,
      }),
    );
    lines.draw(overTime(compared));
    fill(list, history(chosen));
  }

  function history(chosen) {
    const value = VALUES[order.name];
    const columns = [
      { name: "at", cell: (one) => h("time", { datetime: one.at }, second(one.at)) },
      { name: "view", head: true, cell: (one) => h("bdi", {}, one.view) },
      { name: "measure", cell: (one) => h("bdi", {}, one.measure ?? "") },
      { name: "rows", number: true, cell: (one) => numberOf(one, "rows") },
      { name: "differ", number: true, cell: (one) => numberOf(one, "differ") },
      { name: "largest", number: true, cell: (one) => figure(one, "largest") },
      { name: "mean", number: true, cell: (one) => figure(one, "mean") },
      { name: "sMAPE", number: true, cell: (one) => (one.figures === null ? "" : percent(one.figures.smape)) },
      { name: "cause", cell: cause },
    ].map((column) => ({ ...column, order: VALUES[column.name] && (order.name === column.name ? order.direction : null) }));
    return table({
      caption: "Audits",
      columns,
      rows: value ? sorted(chosen, value, order.direction) : chosen,
      empty: "No audits yet; every recompute adds some.",
      sort(name) {
        order = { name, direction: order.name === name && order.direction === "ascending" ? "descending" : "ascending" };
        refill(list, history(chosen));
      },
    });
  }

  app.status.subscribe((found) => {
    if (!found.status || found.status.publication === publication) return;
    publication = found.status.publication;
    load();
  }, signal);

  return (next) => {
    query = next.query;
    if (audits !== null) draw();
  };
}

const VALUES = {
  at: (one) => one.at,
  view: (one) => one.view,
  measure: (one) => one.measure,
  rows: (one) => (one.expectation ?? one.figures)?.rows ?? null,
  differ: (one) => one.expectation?.unmet ?? one.figures?.differ ?? null,
  largest: (one) => one.figures?.largest ?? null,
  mean: (one) => one.figures?.mean ?? null,
  sMAPE: (one) => one.figures?.smape ?? null,
};

/** A number of an audit or a condition; nothing where it has none. */
function numberOf(one, name) {
  const value = VALUES[name](one);
  return value === null ? "" : shown(value);
}

function figure(one, name) {
  return one.figures === null ? "" : shown(one.figures[name]);
}

/** Why answers differ, why they were not compared, or what was expected of them. */
function cause(one) {
  if (one.obstacle) return badge(`not comparable: ${one.obstacle}`, "warn");
  if (one.expectation === null) return one.cause ?? "";
  const { condition, severity, unmet } = one.expectation;
  return h("span", { title: unmet ? JSON.stringify(one.expectation.worst[0]) : "" }, badge(unmet ? severity : "met", unmet ? (severity === "stop" ? "bad" : "warn") : "good"), " ", h("code", {}, condition));
}

/** The results of the conditions in the newest check of each view: a removed condition has none. */
function newestOf(audits) {
  const versions = new Map();
  const checks = audits.filter((audit) => audit.expectation);
  for (const { view, version } of checks) versions.set(view, versions.get(view) ?? version);
  return checks.filter(({ view, version }) => version === versions.get(view)).map((audit) => audit.expectation);
}

/** A line for each measure, those with the largest errors; the largest of each run if there are several. */
function overTime(compared) {
  const byMeasure = new Map();
  for (const audit of compared) {
    const name = `${audit.view}.${audit.measure}`;
    if (!byMeasure.has(name)) byMeasure.set(name, []);
    byMeasure.get(name).push(audit);
  }
  const worst = (list) => Math.max(...list.map((audit) => audit.figures.smape));
  const most = [...byMeasure].sort(([, one], [, other]) => worst(other) - worst(one)).slice(0, TONES.length);
  const xs = [...new Set(compared.map((audit) => Date.parse(audit.at) / 1000))].sort((a, b) => a - b);
  const series = most.map(([name, list], at) => {
    const found = new Map(list.map((audit) => [Date.parse(audit.at) / 1000, 100 * audit.figures.smape]));
    return { label: name, ys: xs.map((x) => found.get(x) ?? null), tone: TONES[at], dash: at ? [4 + 2 * at, 3] : null };
  });
  const left = byMeasure.size - most.length;
  const sentence = xs.length
    ? `sMAPE in per cent of ${counted(xs.length, "run")}, at most ${percent(Math.max(...most.map(([, list]) => worst(list))))}${left > 0 ? `; ${counted(left, "more measure")} with smaller errors` : ""}.`
    : "Nothing has been compared yet.";
  return { xs, series, from: null, ends: xs, zone: "UTC", sentence };
}
