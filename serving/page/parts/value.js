// One value of a row, by its column's kind. Anybody may send keys: they are shown as text, isolated from the text around them.

import { h } from "../lib/dom.js";
import { number, time, visible } from "../lib/format.js";

const NUMBERS = new Set(["integer", "decimal", "float"]);

/** Whether values of a kind are aligned right. */
export function isNumber(kind) {
  return NUMBERS.has(kind);
}

/** A value as a node; `kind` may be unknown, as in the results of SQL. */
export function shown(value, kind) {
  if (value === null || value === undefined) return h("span", { class: "null" }, "NULL");
  if (typeof value === "boolean") return value ? "true" : "false";
  if (typeof value === "number" || typeof value === "bigint") return h("span", { title: String(value) }, number(value));
  if (kind === "decimal") return number(value);
  if (kind === "time") return h("time", { datetime: value }, time(value));
  if (Array.isArray(value)) return list(value);
  if (typeof value === "object") return struct(value);
  if (value === "") return h("span", { class: "null" }, "empty text");
  return h("bdi", { class: "text", tabindex: value.length > 200 ? "0" : null }, visible(value));
}

/** A value as one line of text. */
export function plain(value) {
  return value === null || value === undefined ? "NULL" : typeof value === "object" ? written(value) : visible(String(value));
}

function list(values) {
  if (values.length === 0) return h("span", { class: "null" }, "empty list");
  return h("span", { class: "list" }, values.map((value) => h("span", { class: "one" }, shown(value))));
}

function struct(value) {
  return h(
    "span",
    { class: "list" },
    Object.entries(value).map(([name, part]) => h("span", { class: "one" }, h("b", {}, visible(name)), " ", shown(part))),
  );
}

function written(value) {
  return JSON.stringify(value, (_, part) => (typeof part === "bigint" ? String(part) : part));
}
