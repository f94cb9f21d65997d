// Polls /status once a second while a part of the page subscribes, and less often while the server does not answer.

import { ask, Refused, Unreachable } from "./ask.js";

const EVERY_MS = 1000;
const MOST_MS = 15000;
const FORBIDDEN = 403;

/** Polls /status for its subscribers; `state` is "live", "gone" (no answer), or "failed" (the server answers with a problem). */
export function statusFeed() {
  const told = new Set();
  let newest = null;
  let timer = null;
  let pause = EVERY_MS;
  let stopped = false;

  function tell(found) {
    newest = found;
    for (const one of told) one(found);
  }

  async function look() {
    timer = null;
    if (stopped || document.hidden) return;
    try {
      tell({ state: "live", status: await ask("/status"), at: Date.now() });
      pause = EVERY_MS;
    } catch (error) {
      if (error instanceof Refused && error.status === 401) return;
      if (error instanceof Refused && error.status === FORBIDDEN) {
        // The server answers, but this token has no right to read: other pages show what it may do.
        stopped = true;
        tell({ state: "live", status: null, why: error.message, at: Date.now() });
        return;
      }
      const state = error instanceof Unreachable ? "gone" : "failed";
      pause = Math.min(MOST_MS, pause * 2);
      tell({ state, why: error.message, again: pause, status: newest?.status ?? null, at: Date.now() });
    }
    if (!stopped && timer === null) timer = setTimeout(look, pause);
  }

  function seen() {
    if (!document.hidden && timer === null) look();
  }

  document.addEventListener("visibilitychange", seen);
  look();
  return {
    /** The newest status, null before the first. */
    now: () => newest,
    subscribe(one, signal) {
      told.add(one);
      signal?.addEventListener("abort", () => told.delete(one));
      if (newest !== null) one(newest);
    },
    retry() {
      clearTimeout(timer);
      pause = EVERY_MS;
      look();
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    },
  };
}
