// What is said where something cannot be shown.

import { h } from "../lib/dom.js";

const MISSING = 404;
const FORBIDDEN = 403;

/** A sentence in the place of what could not be shown. */
export function problem(error) {
  return h("p", { class: "problem", role: "alert" }, error.message);
}

/** The same of a part of the server that this token may not ask, or that the server has not. */
export function obstacle(error, what) {
  if (error.status === FORBIDDEN) return h("p", { class: "note" }, `${what} needs another right: ${error.message}.`);
  if (error.status === MISSING) return h("p", { class: "note" }, `This server does not offer ${what.toLowerCase()}.`);
  return problem(error);
}
