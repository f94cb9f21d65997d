// The session: the token is in this tab's session storage, and is deleted with the tab.

const PLACE = "tandem.token";
const heard = new Set();

/** The token, null without one. */
export function token() {
  return sessionStorage.getItem(PLACE);
}

/** Stores a token. */
export function remember(text) {
  sessionStorage.setItem(PLACE, text);
}

/** Deletes the token and calls the listeners with the reason. */
export function forget(why) {
  if (token() === null) return;
  sessionStorage.removeItem(PLACE);
  for (const one of heard) one(why);
}

/** `told` is called with the reason whenever the token is deleted. */
export function onForgotten(told) {
  heard.add(told);
}
