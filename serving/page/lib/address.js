// The address decides what the page shows, by its part after `#`: a reload, a link and the back button give the same page.
// Browsers do not send that part to a server, so no key appears in a log.

/** The parts of the path, and the parameters. */
export function read(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

/** The address of a page; parameters without a value are left out. */
export function to(path, query = new URLSearchParams()) {
  const kept = [...query].filter(([, value]) => value !== null && value !== undefined);
  const text = new URLSearchParams(kept).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Goes to an address; with `replace` it replaces the current one in the history. */
export function go(hash, { replace = false } = {}) {
  if (hash === location.hash) return;
  if (replace) {
    history.replaceState(null, "", hash);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = hash;
  }
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
