// What a screen reader is told beside what it reads: politely, and not more often than one can listen to.

import { h } from "./dom.js";

const EVERY_MS = 5000;

/** A live region, and what says a text in it: at once after a pause, else the last of what came meanwhile. */
export function announcer() {
  const region = h("p", { class: "unseen", role: "status", "aria-live": "polite" });
  let last = 0;
  let waiting = null;
  return {
    region,
    say(text) {
      clearTimeout(waiting);
      const pause = Math.max(0, last + EVERY_MS - Date.now());
      waiting = setTimeout(() => {
        last = Date.now();
        region.textContent = text;
      }, pause);
    },
  };
}
