// The events behind a number: a button, then what the server reads of the log, and whether they make the number.

import { ask } from "../lib/ask.js";
import { fill, h } from "../lib/dom.js";
import { counted, number } from "../lib/format.js";
import { hasTime } from "../lib/question.js";
import { release } from "../lib/release.js";
import { zoned } from "../lib/zone.js";
import { problem } from "./problem.js";
import { button } from "./section.js";
import { table } from "./table.js";
import { shown } from "./value.js";

/** The place for the events of a row that one measure counts; a request is made only when the button is pressed. */
export function events({ view, row, column, zone, signal }) {
  const place = h("div", { class: "events", "aria-live": "polite", tabindex: "-1" });
  if (release !== null) return h("p", { class: "note" }, "Events are shown of the live release.");
  async function load() {
    place.focus(); // the button, which had it, goes
    fill(place, h("p", { class: "waiting" }, "\u2026"));
    try {
      fill(place, told(await ask(address(view, row, column), { signal }), column, zone));
    } catch (error) {
      if (!signal.aborted) fill(place, problem(error));
    }
  }
  fill(place, button("Show the events", load));
  return place;
}

function address(view, row, column) {
  const asked = new URLSearchParams({ measures: column.name });
  for (const key of view.keys) {
    if (row[key] === null) asked.append("null", key);
    else asked.append(`key.${key}`, String(row[key]));
  }
  if (hasTime(view) && row.window_start) asked.set("window", row.window_start);
  return `/views/${encodeURIComponent(view.name)}/why?${asked}`;
}

function told(document, column, zone) {
  const [check] = document.measures;
  return [
    h("p", { class: check.verdict === "differs" ? "problem" : null }, sentence(check)),
    read(document.sources).map(([name, source]) => [
      table({
        caption: `${counted(source.events, "event")} of ${name}`,
        rows: source.listed,
        empty: "No event counts.",
        columns: [
          { name: "position", head: true, cell: (event) => h("bdi", { class: "place" }, event.at) },
          { name: "value", number: true, cell: (event) => (event.reads[column.name] ?? []).map((value) => shown(value, column.kind, zone)) },
          { name: "time", cell: (event) => h("time", { datetime: event.time }, zoned(event.time, zone)) },
          { name: "layer", cell: (event) => (event.after_final ? `${event.layer}, late` : event.layer) },
        ],
      }),
      source.events > source.listed.length ? h("p", { class: "note" }, `The first and last of ${number(source.events)}; tandem why lists all.`) : null,
      h("ul", { class: "told" }, notes(source).map((note) => h("li", {}, note))),
    ]),
  ];
}

/** The sources that have events of the measure; all of them if none has. */
function read(sources) {
  const every = Object.entries(sources);
  const some = every.filter(([, source]) => source.events);
  return some.length ? some : every;
}

function sentence(check) {
  if (check.verdict === "differs") return ["Computed again from these events it is ", shown(check.again, "decimal"), "."];
  if (check.verdict === "not computed again") return "The project computes this measure itself; its events are these.";
  return check.verdict === "equal" ? "Computed again from these events, it is the same." : "Computed again from these events, it is the same within its error.";
}

function notes({ duplicates, rejected, filtered, near_misses }) {
  return [
    duplicates.number ? `${counted(duplicates.number, "duplicate")} dropped` : null,
    rejected.number ? `${counted(rejected.number, "event")} rejected by the view` : null,
    filtered.number ? `${counted(filtered.number, "event")} left out by the view's filter` : null,
    near_misses.number ? `${counted(near_misses.number, "record")} in quarantine with this key` : null,
  ].filter(Boolean);
}
