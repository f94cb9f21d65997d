// Colours of the style sheet in the current colour scheme, for drawing on a canvas.

const NAMES = ["batch", "realtime", "line-1", "line-2", "line-3", "line-4", "line-5", "ink", "faint", "rule", "band", "shade"];

/** The colours by name. */
export function tones() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** Calls `changed` when the colour scheme changes, until the signal. */
export function onScheme(changed, signal) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed, { signal });
}
