// Elements that pages share.

import { h } from "../lib/dom.js";

/** A part of a page under a heading. */
export function section(title, ...content) {
  return h("section", {}, h("h2", {}, title), content);
}

/** A page's heading, with notes beside it. */
export function heading(title, ...beside) {
  return h("header", { class: "heading" }, h("h1", { tabindex: "-1" }, title), beside);
}

/** Names with values, as a list; names whose value is null are left out. */
export function facts(pairs) {
  const told = Object.entries(pairs).filter(([, value]) => value !== null && value !== undefined);
  return h("dl", { class: "facts" }, told.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** A badge; its tone says what kind of word it is. */
export function badge(text, tone = "plain") {
  return h("span", { class: `badge ${tone}` }, text);
}

let fields = 0;

/** A control with its label, and a note that describes it. */
export function field(label, control, note = null) {
  // By id: a label around a control would include all its options in its name.
  const id = `field-${(fields += 1)}`;
  control.setAttribute("aria-labelledby", id);
  if (note !== null) control.setAttribute("aria-describedby", `${id}-note`);
  return h("label", { class: "field" }, h("span", { id }, label), control, note === null ? null : h("small", { id: `${id}-note` }, note));
}

/** A button. */
export function button(text, click, props = {}) {
  return h("button", { type: "button", ...props, on: { click } }, text);
}
