// Requests to the server that sent this page. The token goes in a header, never in a URL.

import { parse } from "./json.js";
import { ofRelease } from "./release.js";
import { forget, token } from "./session.js";

/** A refused request: the server's status and sentence. */
export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** The server did not answer. */
export class Unreachable extends Error {}

/** A response; `body` is sent as JSON, `text` as it is. Throws Refused, Unreachable, or an AbortError if `signal` aborts. */
export async function request(path, { method = "GET", body, text, headers = {}, signal } = {}) {
  const sent = { Authorization: `Bearer ${token()}`, ...headers };
  if (body !== undefined) sent["Content-Type"] = "application/json";
  if (text !== undefined) sent["Content-Type"] = "application/octet-stream";
  let response;
  try {
    response = await fetch(ofRelease(path), {
      method,
      headers: sent,
      signal,
      body: body === undefined ? text : JSON.stringify(body),
      referrerPolicy: "no-referrer",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable("the server does not answer");
  }
  if (response.ok) return response;
  const detail = await sentence(response);
  if (response.status === 401) forget(detail);
  throw new Refused(response.status, detail);
}

/** A JSON document; its integers keep all their digits. */
export async function ask(path, how = {}) {
  const response = await request(path, { ...how, headers: { Accept: "application/json", ...how.headers } });
  return parse(await response.text());
}

async function sentence(response) {
  try {
    return (await response.json()).detail ?? response.statusText;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return response.statusText || `status ${response.status}`;
  }
}
