// Who is signed in: the token lives in this tab's session storage, and ends with the tab.

const PLACE = "tandem.token";
const heard = new Set();

/** The token that is shown, null without one. */
export function token() {
  return sessionStorage.getItem(PLACE);
}

/** Takes a token that somebody has typed. */
export function remember(text) {
  sessionStorage.setItem(PLACE, text);
}

/** Lets the token go and tells whoever listens why. */
export function forget(why) {
  if (token() === null) return;
  sessionStorage.removeItem(PLACE);
  for (const one of heard) one(why);
}

/** `told` is called with the reason whenever the token is forgotten. */
export function onForgotten(told) {
  heard.add(told);
}
