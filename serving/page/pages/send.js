// A form that sends one event to a source, for tokens with the right `ingest`.

import { ask } from "../lib/ask.js";
import { go, to } from "../lib/address.js";
import { fill, h } from "../lib/dom.js";
import { obstacle, problem } from "../parts/problem.js";
import { recordFields } from "../parts/record_fields.js";
import { badge, button, field, heading, section } from "../parts/section.js";
import { table } from "../parts/table.js";

const SAMPLES = { integer: 0, decimal: "0.00", float: 0, text: "", boolean: false, list: [], struct: {} };

export function title() {
  return "Send an event";
}

export function show(place, address, app, signal) {
  let query = address.query;
  let sources = [];
  const select = h("select", { on: { change: () => go(to(["send"], new URLSearchParams({ source: select.value }))) } });
  const topic = h("select", {});
  const kind = h("select", {});
  const [topics, kinds] = [h("span", {}, field("topic", topic)), h("span", {}, field("kind", kind))];
  const text = h("textarea", { rows: 12, spellcheck: "false", id: "event", "aria-describedby": "format" });
  const format = h("p", { class: "note", id: "format" });
  const inputs = recordFields(text);
  const fields = section("Fields");
  const outcome = h("div", { role: "status" });
  const start = button("Send", send, { class: "first" });
  const content = h(
    "div",
    { class: "sql" },
    h("div", { class: "controls" }, field("source", select), topics, kinds),
    inputs.node,
    h("label", { for: "event" }, "One record"),
    text,
    format,
    h("div", { class: "buttons" }, start),
    outcome,
    fields,
  );
  fill(place, heading("Send an event"), h("p", { class: "doc" }, "The event is written to the log like any other, and cannot be taken back. It is not written if it does not decode."), content);

  const chosen = () => sources.find((one) => one.name === query.get("source")) ?? sources[0];

  function draw() {
    const source = chosen();
    select.value = source.name;
    options(topics, topic, source.topics);
    options(kinds, kind, source.kinds ?? []);
    text.value = source.decoder.startsWith("json") ? sample(source) : "";
    fill(format, "The text of the record is what is sent, byte for byte. Decoded by ", h("code", {}, source.decoder || "the source\u2019s own decoder"), ".");
    fill(outcome);
    inputs.show(source);
    fields.hidden = !inputs.node.hidden;
    fill(
      fields,
      h("h2", {}, "Fields"),
      table({
        caption: "Fields of the event",
        named: true,
        rows: source.fields,
        columns: [
          { name: "key", head: true, cell: (one) => h("code", {}, one.key) },
          { name: "kind", cell: (one) => one.kind },
          { name: "unit", cell: (one) => one.unit ?? "" },
          { name: "required", cell: (one) => (one.required ? "yes" : "no") },
          { name: "about", cell: (one) => [one.name === source.event_time ? [badge("event time"), " "] : null, one.doc ?? ""] },
        ],
      }),
    );
  }

  async function send() {
    const source = chosen();
    const asked = new URLSearchParams();
    if (source.topics.length > 1) asked.set("topic", topic.value);
    if (source.kinds?.length) asked.set("kind", kind.value);
    start.disabled = true;
    fill(outcome, h("p", { class: "waiting" }, "\u2026"));
    try {
      const sent = await ask(`/sources/${encodeURIComponent(source.name)}/events?${asked}`, { method: "POST", text: text.value, signal });
      const [record] = sent.records;
      fill(
        outcome,
        h("p", { class: "done" }, "Written to topic ", h("bdi", {}, sent.topic), " at ", h("bdi", { class: "place" }, `${record.topic_id}/${record.partition}:${record.offset ?? "?"}`), "."),
        source.views.length ? h("p", {}, "Views that count it: ", source.views.flatMap((view, at) => [at ? ", " : "", h("a", { href: to(["views", view]) }, h("bdi", {}, view))])) : null,
      );
    } catch (error) {
      if (!signal.aborted) fill(outcome, problem(error));
    } finally {
      start.disabled = false;
    }
  }

  async function load() {
    sources = (await ask("/sources", { signal })).sources.filter((one) => one.ingest);
    content.hidden = !sources.length;
    if (!sources.length) {
      place.append(h("p", { class: "note" }, "This token may not send events to any source."));
      return;
    }
    fill(select, sources.map((one) => h("option", { value: one.name }, one.name)));
    draw();
  }

  load().catch((error) => signal.aborted || fill(outcome, obstacle(error, "The form")));
  return (next) => {
    query = next.query;
    if (sources.length) draw();
  };
}

function options(node, select, names) {
  node.hidden = names.length < 2;
  fill(select, names.map((name) => h("option", { value: name }, name)));
}

/** A record of the source's required fields, to be filled in. */
function sample(source) {
  const now = new Date().toISOString();
  const pairs = source.fields.filter((one) => one.required).map((one) => [one.key, one.kind === "time" ? now : (SAMPLES[one.kind] ?? null)]);
  return JSON.stringify(Object.fromEntries(pairs), null, 2);
}
