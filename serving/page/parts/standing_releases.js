// The releases beside the live one.

import { h } from "../lib/dom.js";
import { number } from "../lib/format.js";
import { badge, section } from "./section.js";
import { table } from "./table.js";

const TONES = { failed: "bad", ready: "good" };

/** A section with these releases, null without any; `actions` returns nodes for the end of each row. */
export function standingReleases(releases, actions = null) {
  if (!releases.length) return null;
  const columns = [
    { name: "release", head: true, cell: (one) => number(one.release) },
    { name: "stage", cell: (one) => badge(one.stage, TONES[one.stage]) },
    { name: "behind", cell: (one) => Object.entries(one.lag ?? {}).map(([name, lag]) => h("div", {}, h("bdi", {}, name), ` ${number(lag)}`)) },
    { name: "why", cell: (one) => one.why ?? "" },
  ];
  if (actions !== null) columns.push({ name: "actions", cell: actions });
  return section("Beside the live release", table({ caption: "Releases beside the live one", named: true, rows: releases, columns }));
}
