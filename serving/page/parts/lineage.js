// The lineage of answers as a picture: a source's topics, the source, its views, and the release and publication that answer.

import { to } from "../lib/address.js";
import { h, svg } from "../lib/dom.js";
import { number } from "../lib/format.js";

/** A source's lineage. `topics` may be unknown. */
export function lineage(name, topics, views) {
  const releases = [...new Set(views.map(([, view]) => `release ${number(view.release)}, publication ${number(view.publication)}`))];
  return h(
    "div",
    { class: "lineage", role: "group", "aria-label": `Lineage of source ${name}` },
    column("topic", topics.map((topic) => h("bdi", {}, topic))),
    fan(topics.length, 1),
    column("source", [h("bdi", {}, name)]),
    fan(1, views.length),
    column("view", views.map(([view]) => h("a", { href: to(["views", view]) }, h("bdi", {}, view)))),
    fan(views.length, releases.length),
    column("answers", releases),
  );
}

function column(kind, nodes) {
  return h("div", { class: "column" }, h("span", { class: "kind" }, kind), h("ul", {}, nodes.map((node) => h("li", {}, node))));
}

/** Wires from each of `some` nodes to each of `others`; one of both is usually 1. */
function fan(some, others) {
  const paths = [];
  for (let one = 0; one < some; one += 1) {
    for (let other = 0; other < others; other += 1) {
      const [a, b] = [(100 * (one + 0.5)) / some, (100 * (other + 0.5)) / others];
      paths.push(svg("path", { d: `M0 ${a} C 50 ${a}, 50 ${b}, 100 ${b}`, class: "wire", "vector-effect": "non-scaling-stroke" }));
    }
  }
  return svg("svg", { class: "wires", viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" }, paths);
}
