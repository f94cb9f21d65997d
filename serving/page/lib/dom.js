// Elements from data. Every text becomes a text node, so no data is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "hidden", "open", "indeterminate"]);

/** An element. `props` are attributes; `on` has listeners by event; null and false leave an attribute out. */
export function h(tag, props, ...children) {
  return made(document.createElement(tag), props, children);
}

/** An SVG element, likewise. */
export function svg(tag, props, ...children) {
  return made(document.createElementNS(SVG, tag), props, children);
}

/** The text of a sentence as nodes: words between backticks are code. */
export function sentence(text) {
  return text.split("`").map((part, at) => (at % 2 === 1 ? h("code", {}, part) : part));
}

/** Replaces the children of a node. */
export function fill(node, ...children) {
  node.replaceChildren(...flat(children));
  return node;
}

/** Replaces the children of a node by similar ones: focus, what Tab reaches, the scroll position of tables and opened details of rows
 * are kept. */
export function refill(node, ...children) {
  const focused = node.contains(document.activeElement) ? named(document.activeElement) : null;
  const reached = [...node.querySelectorAll('button[tabindex="0"]')].map(named);
  const scrolled = [...node.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  const opened = new Set([...node.querySelectorAll("tr details[open]")].map(placeOf));
  fill(node, ...children);
  node.querySelectorAll("tr details").forEach((one) => (one.open = opened.has(placeOf(one))));
  node.querySelectorAll(".scroll").forEach((one, at) => (one.scrollLeft = scrolled[at] ?? 0));
  reached.forEach((name) => reachAlike(node, name));
  if (focused !== null) focusAlike(node, focused);
  return node;
}

/** Moves the focus to the element in `node` that is named like this, if there is one. */
export function focusAlike(node, name) {
  reachAlike(node, name)?.focus({ preventScroll: true });
}

/** Returns the element in `node` that is named like this, if there is one, after it made Tab reach it in place of its group's other. */
function reachAlike(node, name) {
  const alike = [...node.querySelectorAll("a, button, summary, [tabindex]")].find((one) => named(one) === name);
  if (alike?.tabIndex === -1) {
    node.querySelectorAll(`[tabindex="0"].${alike.classList[0]}`).forEach((one) => (one.tabIndex = -1));
    alike.tabIndex = 0;
  }
  return alike;
}

/** The cell of a node in a table: what identifies its row, by default the texts of the first two cells, and its column. */
function placeOf(node) {
  const cell = node.closest("td, th");
  const row = cell.parentElement;
  return `${row.dataset.row ?? [...row.cells].slice(0, 2).map((one) => one.textContent).join("\n")} ${cell.cellIndex}`;
}

/** The name of an element, which is also that of its replacement. */
export function named(node) {
  if (node.closest("tr[data-row]")) return `${node.localName} ${placeOf(node)}`;
  const name = node.getAttribute("href") ?? node.dataset.column ?? (node.classList.contains("scroll") ? "" : node.textContent);
  return `${node.localName} ${name}`;
}

function made(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, heard] of Object.entries(value)) node.addEventListener(event, heard);
    } else if (PROPERTIES.has(name)) {
      node[name] = value;
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  node.append(...flat(children));
  return node;
}

function flat(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}
