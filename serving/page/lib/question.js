// The question in the address of a view's page, and the server's parameters for it.

import { span } from "./format.js";

export const SPANS = { "1h": 3600, "6h": 21600, "1d": 86400, "7d": 604800, "30d": 2592000 };
export const LAYERS = ["merged", "batch", "speed"];

const PLACES = new Set(["window_start", "window_number", "topic_id", "partition"]);
const CARRIED = ["from", "to", "measures", "layer", "order"];

/** The words for a span in the address. */
export function spanName(name) {
  return `last ${span(SPANS[name])}`;
}

/** The requested layer. */
export function layerOf(query) {
  return LAYERS.includes(query.get("layer")) ? query.get("layer") : "merged";
}

/** The choice for a key: null for any value, else its text, and whether it must be NULL. */
export function keyOf(query, name) {
  if (query.getAll("null").includes(name)) return { isNull: true, text: "" };
  const text = query.get(`key.${name}`);
  return text === null ? null : { isNull: false, text };
}

/** The query with another choice for a key. */
export function withKey(query, name, choice) {
  const changed = new URLSearchParams([...query].filter(([at, value]) => at !== `key.${name}` && !(at === "null" && value === name)));
  if (choice?.isNull) changed.append("null", name);
  else if (choice) changed.append(`key.${name}`, choice.text);
  return changed;
}

/** The query with other values; null removes a name. */
export function changed(query, values) {
  const made = new URLSearchParams(query);
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === "") made.delete(name);
    else made.set(name, value);
  }
  return made;
}

/** The parameters of the server's /rows. `now` is the end of a span, in milliseconds. */
export function parameters(query, { now, ...more }) {
  const asked = new URLSearchParams();
  for (const [name, value] of query) {
    if (name.startsWith("key.") || name === "null") asked.append(name, value);
    else if (CARRIED.includes(name) && value !== "") asked.set(name, value);
  }
  const seconds = SPANS[query.get("last")];
  if (seconds !== undefined) {
    asked.delete("to");
    asked.set("from", new Date(now - seconds * 1000).toISOString());
  }
  for (const [name, value] of Object.entries(more)) {
    if (value === null || value === undefined) asked.delete(name);
    else asked.set(name, String(value));
  }
  return asked;
}

/** Whether a view's windows follow one another in time. */
export function hasTime(view) {
  return !/^(all_time|sliding_count_window)\(/.test(view.window);
}

/** The identity of a row: its keys and its window. */
export function rowId(row, columns) {
  const named = columns.filter((column) => column.part === "key" || PLACES.has(column.name));
  return JSON.stringify(named.map((column) => (typeof row[column.name] === "bigint" ? String(row[column.name]) : row[column.name])));
}
