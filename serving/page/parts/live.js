// Notifies a page that a view has changed: by the view's stream, and by the status, which reports changes that affect no row.

import { follow } from "../lib/stream.js";

const PAUSE_MS = 200;

/**
 * Calls `changed` with the documents of new changes, at most a few times a second and never while the last call still runs.
 * Calls `stands` with whether the stream is connected, and why it is not if it stays so. Ends with the signal.
 */
export function live({ name, app, signal, changed, stands }) {
  let waiting = [];
  let timer = null;
  let running = false;
  let due = false;
  let stand = null;

  function later(documents) {
    waiting.push(...documents);
    due = true;
    if (timer === null && !running) timer = setTimeout(run, waiting.length ? 0 : PAUSE_MS);
  }

  async function run() {
    timer = null;
    if (signal.aborted || !due) return;
    const documents = waiting;
    waiting = [];
    due = false;
    running = true;
    try {
      await changed(documents);
    } finally {
      running = false;
    }
    if (!signal.aborted) timer = setTimeout(run, PAUSE_MS);
  }

  follow(name, {
    signal,
    opened() {
      stands(true);
      later([]);
    },
    closed: (reason) => stands(false, reason),
    changed: (document) => later([document]),
  });

  app.status.subscribe((found) => {
    const state = found.status?.views[name];
    if (state === undefined) return;
    // No row reports a publication, or the position up to which the log is counted.
    const now = JSON.stringify([state.publication, state.realtime, state.watermark, state.problem]);
    if (stand !== null && now !== stand) later([]);
    stand = now;
  }, signal);
}
