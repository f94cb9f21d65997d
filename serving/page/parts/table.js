// Tables: a caption, headings with their scope, columns that can be sorted by a button.

import { h } from "../lib/dom.js";

const WORDS = { ascending: "sorted upwards", descending: "sorted downwards" };
const ARROWS = { ascending: "\u2191", descending: "\u2193" };

/**
 * A table. Each of `columns` has a `name`, the `cell` of a row (a node or a text), and may have a `title`, a `note` (shown small
 * under the name), `number` (aligned right), `order` ("ascending", "descending" or null, where it can be sorted) and `head` (it
 * names the row). `sort` is called with the name of a column whose button was pressed, `look` returns a row's class, `identity` a text that is the same when the row is drawn again; `named` says that a heading
 * beside it has the caption's words.
 */
export function table({ caption, columns, rows, sort = null, look = () => null, identity = () => null, empty = "no rows", named = false }) {
  const body = rows.map((row) => h("tr", { class: look(row), "data-row": identity(row) }, columns.map((column) => cell(column, row))));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: named ? "unseen" : null }, caption),
      h("thead", {}, h("tr", {}, columns.map((column) => heading(column, sort)))),
      h("tbody", {}, body.length ? body : h("tr", {}, h("td", { colspan: columns.length, class: "empty" }, empty))),
    ),
  );
}

/** Rows in the order of a column's values, NULL last, for tables that are complete in the page. */
export function sorted(rows, value, direction) {
  const sign = direction === "descending" ? -1 : 1;
  return [...rows].sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (a < b ? -1 : a > b ? 1 : 0);
  });
}

function heading(column, sort) {
  const classes = column.number ? "number" : null;
  const note = column.note ? h("small", {}, column.note) : null;
  if (sort === null || column.order === undefined) {
    return h("th", { scope: "col", class: classes, title: column.title }, column.name, note);
  }
  const mark = h("span", { class: "arrow", "aria-hidden": "true" }, ARROWS[column.order] ?? "\u2195");
  const said = column.order ? h("span", { class: "unseen" }, `, ${WORDS[column.order]}`) : null;
  return h(
    "th",
    { scope: "col", class: classes, title: column.title, "aria-sort": column.order ?? "none" },
    h("button", { type: "button", class: "sort", "data-column": column.name, on: { click: () => sort(column.name) } }, column.name, mark, said),
    note,
  );
}

function cell(column, row) {
  const content = column.cell(row);
  if (column.head) return h("th", { scope: "row" }, content);
  return h("td", { class: column.number ? "number" : null }, content);
}
