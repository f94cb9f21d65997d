// One value of a row, by its column's kind. Anybody may send keys: they are shown as text, isolated from the text around them.

import { h } from "../lib/dom.js";
import { number, visible } from "../lib/format.js";
import { zoned } from "../lib/zone.js";

const SHORT = 24;
const NUMBERS = new Set(["integer", "decimal", "float"]);

/** Whether values of a kind are aligned right. */
export function isNumber(kind) {
  return NUMBERS.has(kind);
}

/** A value as a node; `kind` may be unknown, as in the results of SQL. Times of columns are in the zone. */
export function shown(value, kind, zone = "UTC") {
  if (value === null || value === undefined) return h("span", { class: "null" }, "NULL");
  if (typeof value === "boolean") return value ? "true" : "false";
  if (typeof value === "number" || typeof value === "bigint") return h("span", { title: String(value) }, number(value));
  if (kind === "decimal") return number(value);
  if (kind === "time") return h("time", { datetime: value }, zoned(value, zone));
  if (Array.isArray(value)) return list(value);
  if (typeof value === "object") return struct(value);
  if (value === "") return h("span", { class: "null" }, "empty text");
  return h("bdi", { class: value.length > SHORT ? "text" : "text short", tabindex: value.length > 200 ? "0" : null }, visible(value));
}

/** A value as one line of text. */
export function plain(value) {
  return value === null || value === undefined ? "NULL" : typeof value === "object" ? written(value) : visible(String(value));
}

function list(values) {
  if (values.length === 0) return h("span", { class: "null" }, "empty list");
  if (values.length > 1 && values.every((value) => alike(value, values[0]))) return structs(values);
  return h("span", { class: "list" }, values.map((value) => h("span", { class: "one" }, shown(value))));
}

function alike(value, first) {
  const isStruct = (one) => one !== null && typeof one === "object" && !Array.isArray(one);
  return isStruct(value) && Object.keys(value).join() === Object.keys(first ?? {}).join();
}

/** Structs with the same parts, such as the most frequent values: the first part of each in one line, and all parts on demand. */
function structs(values) {
  const names = Object.keys(values[0]);
  const line = values.map((value) => plain(value[names[0]])).join(", ");
  return h(
    "details",
    { class: "structs" },
    h("summary", {}, h("bdi", {}, line)),
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, visible(name))))),
      h("tbody", {}, values.map((value) => h("tr", {}, names.map((name) => h("td", {}, shown(value[name])))))),
    ),
  );
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
