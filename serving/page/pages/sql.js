// SELECT statements over the views, each of them a table.

import { ask, request } from "../lib/ask.js";
import { go, to } from "../lib/address.js";
import { fill, h, refill } from "../lib/dom.js";
import { counted, number } from "../lib/format.js";
import { exactness } from "../parts/exactness.js";
import { FILES, hand } from "../parts/downloads.js";
import { problem } from "../parts/problem.js";
import { button, heading } from "../parts/section.js";
import { sorted, table } from "../parts/table.js";
import { isNumber, shown } from "../parts/value.js";

const MOST_SHOWN = 1000;

export function title() {
  return "SQL";
}

export function show(place, address, app, signal) {
  const text = h("textarea", { rows: 6, spellcheck: "false", id: "statement", on: { keydown: keys } });
  const result = h("div", { class: "rows" });
  const known = h("div", { class: "known" });
  const start = button("Run", run, { class: "first", "aria-keyshortcuts": "Control+Enter" });
  let running = null;
  text.value = address.query.get("statement") ?? "";
  fill(
    place,
    heading("SQL"),
    h(
      "div",
      { class: "sql" },
      h("label", { for: "statement" }, "One SELECT in DuckDB's SQL; each view is a table. All views are at one snapshot."),
      text,
      h("div", { class: "buttons" }, start, h("span", { class: "note" }, "or Ctrl+Enter")),
      known,
    ),
    result,
  );

  function keys(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
  }

  async function run() {
    const statement = text.value.trim();
    if (statement === "") return;
    running?.abort();
    running = new AbortController();
    const own = AbortSignal.any([running.signal, signal]);
    go(to(["sql"], new URLSearchParams({ statement })), { replace: true });
    fill(result, h("p", { class: "waiting" }, "\u2026"));
    const began = performance.now();
    try {
      const found = await ask("/sql", { method: "POST", body: { statement }, signal: own });
      tell(found, performance.now() - began, statement);
    } catch (error) {
      if (!own.aborted) fill(result, problem(error));
    }
  }

  function tell(found, ms, statement) {
    app.say(`${counted(found.total, "row")}.`);
    fill(
      result,
      h(
        "p",
        { class: "note" },
        exactness(found.provenance.exactness.label, found.provenance.exactness.says),
        ` ${counted(found.total, "row")} in ${number(Math.round(ms))} ms`,
        found.provenance.publication === null ? "" : ` at publication ${number(found.provenance.publication)}`,
        found.total > MOST_SHOWN ? `, of which ${number(MOST_SHOWN)} are shown. ` : ". ",
        Object.keys(FILES).map((kind) => [button(`Download as ${kind}`, () => save(statement, kind), { class: "quiet" }), " "]),
      ),
      h("div", {}, listed(found.rows.slice(0, MOST_SHOWN), null)),
    );
  }

  function listed(rows, order) {
    const names = rows.length ? Object.keys(rows[0]) : [];
    const columns = names.map((name) => ({
      name,
      order: order?.name === name ? order.direction : null,
      number: rows.some((row) => isNumber(kindOf(row[name]))),
      cell: (row) => shown(row[name]),
    }));
    return table({
      caption: "Result",
      columns: columns.length ? columns : [{ name: "result", cell: () => "" }],
      rows: order === null ? rows : sorted(rows, (row) => comparable(row[order.name]), order.direction),
      sort(name) {
        const next = { name, direction: order?.name === name && order.direction === "ascending" ? "descending" : "ascending" };
        refill(result.lastElementChild, listed(rows, next));
      },
    });
  }

  async function save(statement, kind) {
    const [media, ending, escaped] = FILES[kind];
    try {
      const response = await request(`/sql?${escaped}`, { method: "POST", body: { statement }, headers: { Accept: media }, signal });
      hand(await response.blob(), `result.${ending}`);
    } catch (error) {
      if (!signal.aborted) result.prepend(problem(error));
    }
  }

  async function tables() {
    const { views } = await ask("/views", { signal });
    fill(
      known,
      h("h2", {}, `Tables, ${number(views.length)}`),
      h("div", { class: "tables" }, views.map((view) =>
        h("details", {}, h("summary", {}, h("code", {}, view.name)), h("p", { class: "note" }, [...view.keys, "window_start", "window_end", "window_state", ...view.measures].join(", ")), button("Use", () => use(view.name), { class: "quiet", "aria-label": `Use ${view.name}` })),
      )),
    );
  }

  function use(name) {
    text.value = `SELECT *\nFROM "${name.replaceAll('"', '""')}"\nLIMIT 100`;
    text.focus();
  }

  tables().catch((error) => signal.aborted || fill(known, problem(error)));
  if (text.value) run();
  return (next) => {
    const statement = next.query.get("statement") ?? "";
    if (statement !== text.value.trim()) text.value = statement;
  };
}

function kindOf(value) {
  return typeof value === "bigint" || typeof value === "number" ? "float" : "text";
}

function comparable(value) {
  return value !== null && typeof value === "object" ? JSON.stringify(value) : (value ?? null);
}
