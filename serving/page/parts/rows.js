// A view's rows as a table; a key's value links to the rows that have it.

import { to } from "../lib/address.js";
import { h } from "../lib/dom.js";
import { hasTime, rowId, withKey } from "../lib/question.js";
import { chosenZone, windowName, zoned } from "../lib/zone.js";
import { exactness } from "./exactness.js";
import { badge } from "./section.js";
import { table } from "./table.js";
import { isNumber, plain, shown } from "./value.js";

const NEWEST_FIRST = "-window_start";
const STATES = { open: "open", on_time: "on time", final: "final" };

/** The table. `changed` are the ids of rows that have just changed; `sort` is called with a column's name, `origin` with the row and the
 * column of a number. */
export function rowsTable({ view, rows, caption, query, path, changed, sort, origin }) {
  let first = true;
  const present = new Set(rows.length ? Object.keys(rows[0]) : view.columns.map((column) => column.name));
  const order = orderOf(query, view);
  const zone = chosenZone(query, view);
  const mixed = rows.some((row) => row._exactness) && !rows.every((row) => row._exactness);
  const columns = view.columns
    .filter((column) => present.has(column.name) && column.name !== "window_end" && (column.name !== "window_start" || !view.window.startsWith("all_time(")))
    .map((column) => ({
      name: column.name,
      title: [column.doc, column.definition].filter(Boolean).join("\n") || null,
      note: column.name === "window_start" ? zone : column.unit,
      number: isNumber(column.kind) && column.part === "measure",
      head: column.part === "key" && column.name === view.keys[0],
      order: sortable(column) ? direction(order, column.name) : undefined,
      cell: (row) => (column.part === "measure" && isNumber(column.kind) && row[column.name] !== null ? traced(row, column) : mixed && row._exactness && column.name === "window_state" ? [cell(row, column, query, path, view, zone), " ", exactness(row._exactness.includes("late_table") ? "outdated" : "exact_unless_duplicate", row._exactness.join(", "))] : cell(row, column, query, path, view, zone)),
    }));
  function traced(row, column) {
    const node = h("button", { type: "button", class: "number-origin", tabindex: first ? "0" : "-1", title: "Where this number comes from", on: { click: () => origin(row, column) } }, shown(row[column.name], column.kind, zone));
    first = false;
    return node;
  }
  return table({ caption, columns, rows, sort, look: (row) => (changed.has(rowId(row, view.columns)) ? "changed" : null), identity: (row) => rowId(row, view.columns), empty: "No matching rows" });
}

/** The order in an address: by default the newest windows first. */
export function orderOf(query, view) {
  return query.get("order") ?? (hasTime(view) ? NEWEST_FIRST : null);
}

/** The order after a click on a column: ascending, descending, then the default. */
export function nextOrder(order, name) {
  if (order === `-${name}`) return order === NEWEST_FIRST ? name : null;
  return order === name ? `-${name}` : name;
}

function direction(order, name) {
  return order === name ? "ascending" : order === `-${name}` ? "descending" : null;
}

function sortable(column) {
  return !["list", "struct"].includes(column.kind);
}

function cell(row, column, query, path, view, zone) {
  const value = row[column.name];
  if (column.name === "window_state") return badge(STATES[value] ?? plain(value), value);
  if (column.name === "window_start" && column.kind === "time") return h("time", { datetime: value, title: `${zoned(value, zone)} to ${zoned(row.window_end, zone)}` }, windowName(value, view, zone));
  if (column.part !== "key") return shown(value, column.kind, zone);
  const choice = value === null ? { isNull: true, text: "" } : { isNull: false, text: String(value) };
  return h("a", { class: "pick", href: to(path, withKey(query, column.name, choice)), title: `Only ${column.name} = ${plain(value).slice(0, 200)}` }, shown(value, column.kind, zone));
}
