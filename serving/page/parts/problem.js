// Messages in the place of data that cannot be shown.

import { h, sentence } from "../lib/dom.js";

const MISSING = 404;
const FORBIDDEN = 403;

/** A sentence in the place of data that could not be loaded. */
export function problem(error) {
  return h("p", { class: "problem", role: "alert" }, sentence(error.message));
}

/** A sentence about a route that this token may not use, or that the server does not have. */
export function obstacle(error, what) {
  if (error.status === FORBIDDEN) return h("p", { class: "note" }, sentence(`${what} needs another right: ${error.message}.`));
  if (error.status === MISSING) return h("p", { class: "note" }, `This server does not offer ${what.toLowerCase()}.`);
  return problem(error);
}
