// A group of checkboxes, a name each.

import { h } from "../lib/dom.js";

/** The group; `set` checks names, `picked` gets the checked names, in the order of all. */
export function checks(legend, names, picked) {
  const boxes = names.map((name) => h("input", { type: "checkbox", value: name, on: { change: () => picked(boxes.filter((box) => box.checked).map((box) => box.value)) } }));
  return {
    node: h("fieldset", { class: "measures" }, h("legend", {}, legend), h("div", {}, names.map((name, at) => h("label", {}, boxes[at], h("bdi", {}, name))))),
    set(on) {
      for (const box of boxes) box.checked = on.includes(box.value);
    },
  };
}
