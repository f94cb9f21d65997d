// An input for each field of a JSON record. The record's text is what counts: inputs show its members, and change them.

import { fill, h } from "../lib/dom.js";
import { changed, members, written } from "../lib/members.js";
import { field } from "./section.js";

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const NESTED = new Set(["list", "map", "struct"]);

/** The inputs of a text area's record; `show` draws those of a source, `tell` follows the text. */
export function recordFields(text) {
  const inputs = new Map();
  const list = h("div", { class: "fields" });
  const why = h("p", { class: "note", role: "status" });
  const set = h("fieldset", {}, h("legend", {}, "Fields of the record"), list);
  const node = h("div", { hidden: true }, set, why);

  function tell() {
    const pairs = members(text.value);
    set.disabled = pairs === null;
    fill(why, pairs === null ? "The record is not one JSON object: its fields can be changed once it is." : null);
    if (pairs === null) return;
    const values = new Map(pairs);
    for (const [key, input] of inputs) {
      const shown = content(values.get(key));
      if (input.value !== shown) input.value = shown;
    }
  }

  text.addEventListener("input", () => node.hidden || tell());
  return {
    node,
    show(source) {
      node.hidden = !source.decoder.startsWith("json");
      inputs.clear();
      for (const one of source.fields) inputs.set(one.key, inputOf(one, (value) => (text.value = written(changed(members(text.value) ?? [], one.key, value)))));
      fill(list, source.fields.map((one) => field(one.key, inputs.get(one.key), note(one, source))));
      if (!node.hidden) tell();
    },
  };
}

function inputOf(one, told) {
  const on = { input: ({ target }) => told(valueOf(one, target.value)) };
  if (one.kind !== "boolean") return h("input", { type: "text", autocomplete: "off", spellcheck: "false", "aria-required": one.required ? "true" : null, on });
  return h("select", { on }, ["", "true", "false"].map((value) => h("option", { value }, value)));
}

/** What an input means as JSON; null leaves the member out. */
function valueOf(one, value) {
  if (value === "" && !one.required) return null;
  if (value === "" && one.null) return "null";
  if (one.kind === "boolean" && value !== "") return value;
  if (["integer", "float", "time"].includes(one.kind) && NUMBER.test(value)) return value;
  if (NESTED.has(one.kind) && nested(value)) return value;
  return JSON.stringify(value);
}

function nested(text) {
  try {
    return typeof JSON.parse(text) === "object";
  } catch {
    return false;
  }
}

/** A member as its input shows it: a text without its quotes, anything else as it is written. */
function content(text) {
  if (text === undefined || text === "null") return "";
  return text.startsWith('"') ? JSON.parse(text) : text;
}

function note(one, source) {
  const empty = one.required ? (one.null ? "required, empty is null" : "required") : "left out if empty";
  return [one.unit ? `${one.kind} in ${one.unit}` : one.kind, one.name === source.event_time ? "the event time" : null, empty, one.doc].filter(Boolean).join(", ");
}
