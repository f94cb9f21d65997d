// The release that the page asks: `?release=2` before the `#` of the address. Without it the live release answers.

/** Its number as the address has it, or null. The server refuses what is not a release that can be asked. */
export const release = new URLSearchParams(location.search).get("release");

const ANSWERS = /^\/(views|sql)(\/|\?|$)/;

/** A path for the server, with the release where it decides the answer. */
export function ofRelease(path) {
  if (release === null || !ANSWERS.test(path)) return path;
  return `${path}${path.includes("?") ? "&" : "?"}release=${encodeURIComponent(release)}`;
}
