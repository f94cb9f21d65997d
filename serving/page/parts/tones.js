// Colours as the style sheet has them for the scheme that is on, for what is drawn on a canvas.

const NAMES = ["batch", "realtime", "line-1", "line-2", "line-3", "line-4", "line-5", "ink", "faint", "rule", "band", "shade"];

/** The colours by name. */
export function tones() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** Calls `changed` when the reader's scheme becomes the other one, until the signal. */
export function onScheme(changed, signal) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed, { signal });
}
