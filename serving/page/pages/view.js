// A view: its definition, its chart and its rows, live; or the list of all views.

import { arrows } from "../lib/arrows.js";
import { ask } from "../lib/ask.js";
import { go, to } from "../lib/address.js";
import { fill, h, refill } from "../lib/dom.js";
import { counted, number } from "../lib/format.js";
import { changed as asChanged, layerOf, parameters, rowId } from "../lib/question.js";
import { chosenZone } from "../lib/zone.js";
import { provenanceFacts } from "../parts/provenance.js";
import { controls } from "../parts/controls.js";
import { downloads } from "../parts/downloads.js";
import { live } from "../parts/live.js";
import { origin } from "../parts/origin.js";
import { picture } from "../parts/picture.js";
import { problem } from "../parts/problem.js";
import { nextOrder, orderOf, rowsTable } from "../parts/rows.js";
import { badge, button, heading } from "../parts/section.js";
import { table } from "../parts/table.js";

const PAGE_ROWS = 100;
const CHANGED_MS = 2500;

export function title({ path }) {
  return path[1] ?? "Views";
}

/** Shows the view that the address names; returns a function that shows it with other parameters. */
export function show(place, address, app, signal) {
  let moved = () => {};
  let newest = address;
  fill(place, h("p", { class: "waiting" }, "\u2026"));
  const name = address.path[1];
  const drawn = name === undefined ? list(place, signal) : one(place, name, app, signal).then((found) => (moved = found)(newest));
  drawn.catch((error) => signal.aborted || fill(place, heading(name ?? "Views"), problem(error)));
  return (next) => moved((newest = next));
}

async function list(place, signal) {
  const { views } = await ask("/views", { signal });
  const columns = [
    { name: "view", head: true, cell: (view) => h("a", { href: to(["views", view.name]) }, h("bdi", {}, view.name)) },
    { name: "window", cell: (view) => h("code", {}, view.window) },
    { name: "keys", cell: (view) => view.keys.join(", ") },
    { name: "measures", cell: (view) => view.measures.join(", ") },
    { name: "about", cell: (view) => view.doc },
  ];
  fill(place, heading("Views"), table({ caption: "Views that this token may read", columns, rows: views, empty: "No views." }));
}

async function one(place, name, app, signal) {
  const path = ["views", name];
  const view = await ask(`/views/${encodeURIComponent(name)}`, { signal });
  const form = controls(view, path);
  const drawing = picture(view, signal, (names) => go(to(path, asChanged(query, { chart: names.join(",") }))));
  const behind = origin(view, signal);
  const pulse = h("span", { class: "connection", role: "status" });
  const provenance = h("div", {});
  const rowsPlace = h("div", { class: "rows" });
  const wrong = h("div", {});
  const cursors = [];
  let query = new URLSearchParams();
  let next = null;
  let loading = null;
  const fresh = new Map();

  const saved = downloads({ name, say: app.say, most: app.me.max_rows, asked: (limit, cursor) => rowsOf({ limit, cursor, order: orderOf(query, view) }) });
  fill(
    place,
    heading(name, pulse),
    view.doc ? h("p", { class: "doc" }, view.doc) : null,
    h("p", { class: "definition" }, h("code", {}, view.window), " over source ", h("bdi", {}, view.source.split("+").join(" and ")), view.where ? [" where ", h("code", {}, view.where)] : null),
    form.node,
    wrong,
    drawing.node,
    provenance,
    rowsPlace,
    saved,
    behind.node,
  );
  arrows(rowsPlace, "number-origin");

  /** The path of the rows in the address. */
  function rowsOf(more) {
    const watermark = app.status.now()?.status?.views[name]?.watermark ?? view.state.watermark;
    const now = watermark === null ? Date.now() : Date.parse(watermark);
    return `/views/${encodeURIComponent(name)}/rows?${parameters(query, { now, ...more })}`;
  }

  async function load() {
    loading?.abort();
    loading = new AbortController();
    const own = AbortSignal.any([loading.signal, signal]);
    try {
      const cursor = cursors.at(-1) ?? null;
      const [page, drawn] = await Promise.all([ask(rowsOf({ limit: PAGE_ROWS, cursor, order: orderOf(query, view) }), { signal: own }), drawing.load(rowsOf, query, app.me.max_rows, own)]);
      if (own.aborted) return;
      fill(wrong);
      tell(page);
      drawn();
    } catch (error) {
      if (own.aborted) return;
      if (error.status === 410 && cursors.length) {
        // The snapshot of these pages has expired: start again at the newest snapshot.
        cursors.length = 0;
        await load();
        return;
      }
      fill(wrong, problem(error));
    } finally {
      if (!own.aborted) loading = null;
    }
  }

  function tell(page) {
    next = page.next;
    form.offer(page.rows);
    fill(provenance, provenanceFacts(page.provenance, chosenZone(query, view)));
    const first = cursors.length * PAGE_ROWS;
    const shown = page.rows.length ? `rows ${number(first + 1)} to ${number(first + page.rows.length)} of ${number(page.total)}` : "no rows";
    refill(
      rowsPlace,
      rowsTable({
        view,
        rows: page.rows,
        caption: `${name}: ${shown}${layerOf(query) === "merged" ? "" : `, layer ${layerOf(query)} alone`}`,
        query,
        path,
        changed: fresh,
        origin: (row, column) => behind.open({ row, column, provenance: page.provenance, query, place: rowsPlace }),
        sort: (column) => go(to(path, asChanged(query, { order: nextOrder(orderOf(query, view), column) }))),
      }),
      pager(),
    );
  }

  function pager() {
    return h(
      "nav",
      { class: "pager", "aria-label": "Pages of rows" },
      button("Back", () => turn(() => cursors.pop()), { disabled: !cursors.length }),
      button("Next", () => turn(() => cursors.push(next)), { disabled: next === null }),
      cursors.length ? [h("span", { class: "note" }, "These pages are of one snapshot. "), button("First page of the newest snapshot", () => turn(() => (cursors.length = 0)))] : null,
    );
  }

  async function turn(step) {
    step();
    await load();
    rowsPlace.querySelector(".scroll").focus();
  }

  live({
    name,
    app,
    signal,
    stands: (following, refusal = "polled every second") =>
      fill(pulse, badge(following ? "live" : refusal, following ? "good" : "plain")),
    async changed(documents) {
      const ids = documents.flatMap((document) => document.rows).map((row) => rowId(row, view.columns));
      const change = {};
      for (const id of ids) fresh.set(id, change);
      if (ids.length) app.say(`${counted(ids.length, "row")} changed.`);
      // Later pages stay at their snapshot.
      if (!cursors.length) await load();
      // From when they are shown, however long that took, and longer if a row has changed again.
      setTimeout(() => ids.filter((id) => fresh.get(id) === change).forEach((id) => fresh.delete(id)), CHANGED_MS);
    },
  });

  return function moved(address) {
    cursors.length = 0;
    query = address.query;
    form.set(query);
    load();
  };
}
