// The outcome of a run: the document of each command, for a person.

import { h } from "../lib/dom.js";
import { counted, number, percent, span } from "../lib/format.js";
import { badge } from "./section.js";
import { table } from "./table.js";
import { documentText } from "./document_text.js";
import { plain, shown } from "./value.js";

const MARKS = { unchanged: "", added: "+", removed: "\u2212", changed: "~" };
const TONES = { added: "good", removed: "bad", changed: "warn" };

/** The document of a run. */
export function outcome(run) {
  const { document } = run;
  if (document === null || document === undefined) return run.problem ? h("p", { class: "problem" }, run.problem) : null;
  if (document.error !== undefined) return h("p", { class: "problem" }, plain(document.error));
  if (run.verb === "plan") return planned(document);
  if (run.verb === "apply") return applied(document);
  return documentText(document);
}

function planned(document) {
  const rows = ["source", "view"].flatMap((what) => Object.entries(document[`${what}s`]).map(([name, one]) => ({ what, name, ...one })));
  return h(
    "div",
    {},
    h("p", {}, document.publication === null ? "Nothing is published yet." : `Compared with release ${number(document.release)} of publication ${number(document.publication)}: `, badge(document.different ? "changes" : "nothing differs", document.different ? "warn" : "good")),
    table({
      caption: "What the project's definitions change",
      rows,
      look: (one) => (one.status === "unchanged" ? null : `diff ${one.status}`),
      columns: [
        { name: "of", head: true, cell: (one) => h("span", {}, h("span", { class: "mark", "aria-hidden": "true" }, MARKS[one.status] ?? ""), ` ${one.what} `, h("bdi", {}, one.name)) },
        { name: "status", cell: (one) => badge(one.status, TONES[one.status]) },
        { name: "kind", cell: (one) => (one.status === "changed" ? one.kind : "") },
        { name: "changes", cell: (one) => h("ul", { class: "told" }, one.changes.map((change) => h("li", {}, h("b", {}, change.kind), " ", h("bdi", {}, change.words)))) },
        { name: "to do", cell: (one) => one.work ?? "" },
      ],
    }),
    Object.entries(document.estimates).map(([source, work]) =>
      h("p", { class: "note" }, `Source ${source}: about ${counted(work.rows, "row")} to read; ${work.seconds === null ? "no estimate yet" : `estimated ${span(work.seconds)}`}.`),
    ),
  );
}

function applied(document) {
  if (document.release === null) return h("p", {}, `Nothing to apply: publication ${number(document.publication)} has these definitions.`);
  return h(
    "div",
    {},
    h("p", {}, `Release ${number(document.release)} is `, badge(document.promoted ? "live" : "ready", "good")),
    Object.entries(document.views).map(([name, view]) => compared(name, view)),
  );
}

/** How a view's answers differ between two releases. */
function compared(name, view) {
  if (view.status !== "changed") return h("p", {}, h("bdi", {}, name), ": ", badge(view.status));
  const measures = Object.entries(view.measures).filter(([, one]) => one.differ);
  return h(
    "div",
    {},
    h("h3", {}, h("bdi", {}, name)),
    h("p", {}, `${number(view.changed)} of ${counted(view.matched, "row")} changed, ${number(view.only_old)} gone, ${number(view.only_new)} new`, view.comparable ? "" : "; keys or windows differ"),
    measures.length
      ? table({
          caption: `Measures of ${name} that differ`,
          rows: measures,
          columns: [
            { name: "measure", head: true, cell: ([measure]) => h("bdi", {}, measure) },
            { name: "differ", number: true, cell: ([, one]) => number(one.differ) },
            { name: "largest", number: true, cell: ([, one]) => shown(one.largest_of_differing) },
            { name: "mean error", number: true, title: "Of the rows that differ", cell: ([, one]) => percent(one.mean_error_of_differing) },
            { name: "examples", cell: ([, one]) => h("ul", { class: "told" }, one.examples.slice(0, 3).map(example)) },
          ],
        })
      : null,
  );
}

function example({ row, old, new: now }) {
  return h("li", {}, h("bdi", {}, Object.entries(row).map(([key, value]) => `${key}=${plain(value)}`).join(" ")), ": ", shown(old), " \u2192 ", shown(now));
}
