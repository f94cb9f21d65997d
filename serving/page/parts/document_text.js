// Any document as readable text, for documents without a picture of their own.

import { h } from "../lib/dom.js";
import { plain, shown } from "./value.js";

const DEEP = 6;

/** A document's parts by name, nested ones below each other. */
export function documentText(document, depth = 0) {
  if (document === null || typeof document !== "object") return shown(document);
  const entries = Object.entries(document);
  if (!entries.length) return h("span", { class: "null" }, "none");
  if (depth >= DEEP) return h("code", {}, plain(document));
  if (Array.isArray(document)) return h("ul", { class: "told" }, document.map((one) => h("li", {}, documentText(one, depth + 1))));
  return h("dl", { class: "told" }, entries.map(([name, value]) => h("div", {}, h("dt", {}, h("bdi", {}, name)), h("dd", {}, documentText(value, depth + 1)))));
}
