// Values as people read them. Times are UTC, as everywhere in the platform.

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const GROUPS = /\B(?=(\d{3})+$)/g;
const NARROW = "\u202f";

/** A number with its digits in groups; strings are decimals with all their digits. */
export function number(value) {
  if (typeof value === "number" && !Number.isInteger(value)) return float(value);
  const [whole, part] = String(value).split(".");
  const sign = whole.startsWith("-") ? "\u2212" : "";
  return sign + whole.replace("-", "").replace(GROUPS, NARROW) + (part === undefined ? "" : `.${part}`);
}

function float(value) {
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-4) return value.toExponential(4).replace("-", "\u2212");
  const [whole, part] = String(Number(value.toPrecision(7))).split(".");
  return number(whole) + (part === undefined ? "" : `.${part}`);
}

/** A number in few characters, as on an axis: 12k, 3.4M. */
export function short(value) {
  const size = Math.abs(value);
  for (const [bound, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= bound) return `${trimmed(value / (bound === 1e4 ? 1e3 : bound))}${unit}`;
  }
  return trimmed(value);
}

function trimmed(value) {
  return String(Number(value.toPrecision(4))).replace("-", "\u2212");
}

/** A fraction as per cent. */
export function percent(share) {
  if (share === 0) return "0 %";
  const size = share * 100;
  return `${size < 0.01 ? size.toExponential(1) : Number(size.toPrecision(3))} %`;
}

/** "2026-11-01 12:00", with seconds and fractions if they are not zero. */
export function time(text) {
  const [day, clock] = text.replace("Z", "").split("T");
  const [hours, rest] = [clock.slice(0, 5), clock.slice(5)];
  return `${day} ${hours}${/^:00(\.0*)?$/.test(rest) ? "" : rest}`;
}

/** A time to the second. */
export function second(text) {
  return time(text.replace(/\.\d+/, ""));
}

/** How long ago in few words. */
export function ago(text, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(text)) / 1000);
  return seconds < 1.5 ? "now" : `${span(seconds)} ago`;
}

/** A duration in few words. */
export function span(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

/** A text with every character visible: invisible ones are shown as their code points. */
export function visible(text) {
  return text.replace(HIDDEN, (mark) => `\u27e8U+${mark.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);
}

/** "1 row", "2 rows". */
export function counted(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
}
