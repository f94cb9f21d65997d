// Pieces that pages are made of.

import { h } from "../lib/dom.js";

/** A part of a page under a heading. */
export function section(title, ...content) {
  return h("section", {}, h("h2", {}, title), content);
}

/** A page's heading with what is said beside it. */
export function heading(title, ...beside) {
  return h("header", { class: "heading" }, h("h1", { tabindex: "-1" }, title), beside);
}

/** Names with values, as a list of facts; a value of null leaves its name out. */
export function facts(pairs) {
  const told = Object.entries(pairs).filter(([, value]) => value !== null && value !== undefined);
  return h("dl", { class: "facts" }, told.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** A word in a frame, whose tone says what kind it is of. */
export function badge(text, tone = "plain") {
  return h("span", { class: `badge ${tone}` }, text);
}

/** A control with its label. */
export function field(label, control, note = null) {
  return h("label", { class: "field" }, h("span", {}, label), control, note ? h("small", {}, note) : null);
}

/** A button. */
export function button(text, click, props = {}) {
  return h("button", { type: "button", ...props, on: { click } }, text);
}
