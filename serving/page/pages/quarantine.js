// Quarantined records: counts by reason, the records, and how the project's current definitions decode them.

import { ask } from "../lib/ask.js";
import { go, to } from "../lib/address.js";
import { fill, h } from "../lib/dom.js";
import { number, second, visible } from "../lib/format.js";
import { obstacle, problem } from "../parts/problem.js";
import { button, field, heading } from "../parts/section.js";
import { table } from "../parts/table.js";
import { placeText, retryOutcome } from "../parts/retry_outcome.js";

const PAGE_ROWS = 50;
const MOST_RETRIED = 200;

export function title() {
  return "Quarantine";
}

export function show(place, address, app, signal) {
  let query = address.query;
  let shownRows = [];
  let names = [];
  let first = null;
  const select = h("select", { on: { change: () => move({ source: select.value }) } });
  const reasons = h("div", { class: "chips", role: "group", "aria-label": "Reasons" });
  const list = h("div", { class: "rows" });
  const outcome = h("div", { role: "status" });
  const again = button("Decode the newest again", retry);
  const content = h(
    "div",
    {},
    h("div", { class: "controls" }, field("source", select), reasons),
    list,
    h("div", { class: "retry" }, again, h("span", { class: "note" }, "With the definitions in the project's folder. It writes nothing; if the decoder has changed, applying it decodes all records again.")),
    outcome,
  );
  fill(place, heading("Quarantine"), h("p", { class: "doc" }, "Records, and events of lists, that could not be decoded, or do not match their event type, stay here with their position in the log; no answer counts them."), content);

  function move(values) {
    const kept = Object.entries({ source: select.value, ...values }).filter(([, value]) => value);
    go(to(["quarantine"], new URLSearchParams(kept)));
  }

  const source = () => query.get("source") ?? first ?? names[0];
  const page = (name, asked) => ask(`/quarantine/${encodeURIComponent(name)}?${asked}`, { signal });

  /** Choose the first source with records, if the address has none and there are several. */
  async function choose() {
    if (query.get("source") !== null || names.length < 2) return;
    const found = await Promise.all(names.map((name) => page(name, "limit=1")));
    first = names.find((_, at) => Object.keys(found[at].counts).length) ?? null;
    select.value = source();
  }

  async function load(before = null) {
    if (!names.length) return;
    const asked = new URLSearchParams({ limit: PAGE_ROWS });
    if (query.get("reason")) asked.set("reason", query.get("reason"));
    if (before !== null) asked.set("before", before);
    try {
      if (first === null) await choose();
      const found = await page(source(), asked);
      shownRows = before === null ? found.rows : [...shownRows, ...found.rows];
      draw(found);
    } catch (error) {
      if (!signal.aborted) fill(list, obstacle(error, "The quarantine browser"));
    }
  }

  function draw({ counts, next }) {
    const reason = query.get("reason");
    const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
    fill(reasons, chip("all", all, reason === null, null), Object.entries(counts).map(([name, count]) => chip(name, count, reason === name, name)));
    again.disabled = all === 0;
    fill(
      list,
      table({
        caption: `Rejected records of ${source()}, the newest first`,
        rows: shownRows,
        empty: "The quarantine is empty. Archive runs add records to it.",
        columns: [
          { name: "place", head: true, cell: (one) => h("bdi", { class: "place" }, placeText(one)) },
          { name: "at", cell: (one) => h("time", { datetime: one.timestamp }, second(one.timestamp)) },
          { name: "reason", cell: (one) => one.reason },
          { name: "detail", cell: (one) => h("bdi", { class: "text" }, visible(one.detail ?? "")) },
          { name: "value", cell: (one) => h("bdi", { class: "text bytes", tabindex: (one.value ?? "").length > 200 ? "0" : null }, visible(one.value ?? "")) },
        ],
      }),
      next === null ? null : button("Older ones", () => load(next)),
    );
  }

  function chip(text, count, on, reason) {
    return h("button", { type: "button", class: "chip", "aria-pressed": String(on), on: { click: () => move({ reason }) } }, text, " ", h("b", {}, number(count)));
  }

  async function retry() {
    again.disabled = true;
    fill(outcome, h("p", { class: "waiting" }, "\u2026"));
    try {
      const body = { limit: MOST_RETRIED, ...(query.get("reason") ? { reason: query.get("reason") } : {}) };
      fill(outcome, retryOutcome(await ask(`/quarantine/${encodeURIComponent(source())}/retry`, { method: "POST", body, signal })));
    } catch (error) {
      if (!signal.aborted) fill(outcome, problem(error));
    } finally {
      again.disabled = false;
    }
  }

  function offered(now) {
    names = now;
    if (names.join("\n") === [...select.options].map((one) => one.value).join("\n")) return false;
    fill(select, names.map((name) => h("option", { value: name }, name)));
    select.value = source() ?? "";
    return true;
  }

  app.status.subscribe((found) => {
    if (found.status && offered(Object.keys(found.status.sources).sort())) load();
  }, signal);

  return (next) => {
    query = next.query;
    select.value = source() ?? "";
    load();
  };
}
