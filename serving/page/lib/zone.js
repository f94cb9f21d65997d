// Times in a chosen zone: UTC, the zone of a view's calendar windows, or the browser's. The address holds the choice.

import { time } from "./format.js";

const UTC = "UTC";
const clocks = new Map();

/** The zones that a view offers, by their names in the address. */
export function zonesOf(view) {
  const of = zoneOfWindow(view);
  return { ...(of === null ? {} : { view: of }), utc: UTC, local: Intl.DateTimeFormat().resolvedOptions().timeZone };
}

/** The zone that an address chooses: by default the view's, else UTC. */
export function chosenZone(query, view) {
  const zones = zonesOf(view);
  return zones[query.get("zone")] ?? zones.view ?? zones.utc;
}

/** The zone of a view's calendar windows; null without one, or if this browser does not know it. */
function zoneOfWindow(view) {
  const name = /\bzone=["']([^"']+)["']/.exec(view.window)?.[1] ?? null;
  try {
    if (name !== null) clock(name);
  } catch {
    return null;
  }
  return name === UTC ? null : name;
}

function clock(zone) {
  if (!clocks.has(zone)) {
    const digits = { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" };
    clocks.set(zone, new Intl.DateTimeFormat("en-US", { ...digits, timeZone: zone, hourCycle: "h23", era: "short" }));
  }
  return clocks.get(zone);
}

/** How far a zone's clocks are ahead of UTC at an instant, in milliseconds. */
export function offset(ms, zone) {
  if (zone === UTC) return 0;
  const parts = Object.fromEntries(clock(zone).formatToParts(ms).map((part) => [part.type, part.value]));
  const year = parts.era === "BC" ? 1 - Number(parts.year) : Number(parts.year);
  const shown = new Date(0);
  shown.setUTCFullYear(year, parts.month - 1, parts.day);
  shown.setUTCHours(parts.hour, parts.minute, parts.second, 0);
  return shown.getTime() - Math.floor(ms / 1000) * 1000;
}

/** What a zone's clocks show at an instant, as `2026-11-01T12:00:00.000`. */
export function wall(ms, zone) {
  return new Date(ms + offset(ms, zone)).toISOString().replace("Z", "");
}

/** The instant, in milliseconds, at which a zone's clocks show a text such as `2026-11-01T12:00`. */
export function instant(text, zone) {
  const shown = Date.parse(`${text}Z`);
  return shown - offset(shown - offset(shown, zone), zone);
}

/** A time of the server in a zone, with its offset unless that is UTC. */
export function zoned(text, zone) {
  if (zone === UTC) return time(text);
  const ms = Date.parse(text);
  const part = /\.\d+/.exec(text)?.[0] ?? "";
  return `${time(wall(ms, zone).slice(0, 19) + part)} ${ahead(offset(ms, zone))}`;
}

function ahead(ms) {
  const clockFace = new Date(Math.abs(ms)).toISOString().slice(11, 19).replace(/:00$/, "");
  return (ms < 0 ? "\u2212" : "+") + clockFace;
}

/** The start of a view's window as people name it: a day or a month of the view's own zone, else the time. */
export function windowName(text, view, zone) {
  const unit = /^calendar\(["'](\w+)/.exec(view.window)?.[1];
  if (unit === undefined || zone !== (zoneOfWindow(view) ?? UTC)) return zoned(text, zone);
  return wall(Date.parse(text), zone).slice(0, unit === "month" ? 7 : 10);
}
