// A view's changes as server-sent events, read by fetch, because an EventSource cannot send a token.

import { Refused, request } from "./ask.js";
import { parse } from "./json.js";

const FIRST_MS = 500;
const MOST_MS = 15000;
const GONE = 410;

/**
 * Follows a view until the signal aborts, and reconnects where it stopped.
 * It calls `opened` at each connection, `changed` with each event's document, and `closed` while there is no connection. After a
 * refusal that another try would not change it calls `closed` with the reason, and ends.
 */
export async function follow(view, { opened, changed, closed, signal }) {
  let since = null;
  let pause = FIRST_MS;
  while (!signal.aborted) {
    try {
      const headers = since === null ? {} : { "Last-Event-ID": since };
      const response = await request(`/views/${encodeURIComponent(view)}/changes`, { headers, signal });
      opened();
      pause = FIRST_MS;
      for await (const event of events(response.body)) {
        if (event.event !== "rows") break;
        since = event.id;
        changed(parse(event.data));
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.status === GONE) since = null;
      if (error instanceof Refused && [401, 403, 404].includes(error.status)) return closed(error.message);
    }
    closed();
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(MOST_MS, pause * 2);
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const event = fields(block);
      if (event.data !== undefined) yield event;
    }
  }
}

function fields(block) {
  const found = {};
  for (const line of block.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) found[line.slice(0, at)] = line.slice(at + 2);
  }
  return found;
}
