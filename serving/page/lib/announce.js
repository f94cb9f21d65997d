// Announcements to a screen reader: polite, and no more often than a person can listen to.

import { h } from "./dom.js";

const EVERY_MS = 5000;

/** A live region, and a function that announces a text in it: at once after a pause, else the last text of the interval. */
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
