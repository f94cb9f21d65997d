// How exact a value is, as a badge.

import { badge } from "./section.js";

const WORDS = {
  exact: ["exact", "good"],
  exact_unless_duplicate: ["exact unless a late duplicate", "plain"],
  floating_point: ["floating-point", "plain"],
  estimate: ["estimate", "warn"],
  outdated: ["outdated by a table", "warn"],
  incomplete: ["incomplete", "warn"],
};

/** The label's word; its tooltip is the whole sentence. */
export function exactness(label, says = null) {
  const [text, tone] = WORDS[label];
  const node = badge(text, tone);
  if (says !== null) node.title = says;
  return node;
}
