// Rows as files. The token goes in a header, so the page fetches a file and then hands it to the browser.

import { Refused, request } from "../lib/ask.js";
import { h } from "../lib/dom.js";
import { counted } from "../lib/format.js";
import { button } from "./section.js";

// A spreadsheet runs a text that begins like a formula, and anybody may have sent that text.
/** By kind: the media type, the ending, and the parameter of the request. */
export const FILES = { CSV: ["text/csv", "csv", "&escape_formulas=true"], Arrow: ["application/vnd.apache.arrow.stream", "arrows", ""] };
const MOST_BYTES = 512 * 1024 * 1024;

/** Buttons that save all rows of a question; `asked` returns its path for a limit of rows and a cursor. */
export function downloads({ name, asked, most, say }) {
  const told = h("span", { class: "note", role: "status" });
  const buttons = Object.keys(FILES).map((kind) => button(kind, () => save(kind), { class: "quiet", "aria-label": `Download as ${kind}` }));

  async function save(kind) {
    const [media, ending, escaped] = FILES[kind];
    for (const one of buttons) one.disabled = true;
    told.textContent = "fetching \u2026";
    try {
      const pages = await all((limit, cursor) => asked(limit, cursor) + escaped, media, most);
      // An Arrow stream has an end of its own, so each page is a file. Pages of CSV are joined.
      if (kind === "CSV") hand(new Blob(pages.map((page, at) => (at ? page.slice(heading(page)) : page)), { type: media }), `${name}.${ending}`);
      else pages.forEach((page, at) => hand(new Blob([page], { type: media }), `${name}${pages.length > 1 ? `-${at + 1}` : ""}.${ending}`));
      told.textContent = pages.length > 1 && kind !== "CSV" ? counted(pages.length, "file") : "";
      say(`Saved as ${kind}.`);
    } catch (error) {
      told.textContent = error.message;
    } finally {
      for (const one of buttons) one.disabled = false;
    }
  }
  return h("span", { class: "downloads" }, "Download ", buttons, told);
}

async function all(asked, media, most) {
  const pages = [];
  let cursor = null;
  let size = 0;
  do {
    const response = await request(asked(most, cursor), { headers: { Accept: media } });
    const page = new Uint8Array(await response.arrayBuffer());
    size += page.length;
    if (size > MOST_BYTES) throw new Refused(413, "the rows are more than 512 MB; narrow the question, or download them as docs/serve.md shows");
    pages.push(page);
    cursor = response.headers.get("Tandem-Next");
  } while (cursor !== null);
  return pages;
}

/** The length of the header line in bytes; no name contains a line end. */
function heading(page) {
  return page.indexOf(10) + 1;
}

/** Saves a file. */
export function hand(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
