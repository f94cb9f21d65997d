// Elements from data. Every text becomes a text node: nothing that is shown is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "hidden", "open", "indeterminate"]);

/** An element. `props` are attributes; `on` has listeners by event; null and false leave an attribute out. */
export function h(tag, props, ...children) {
  return made(document.createElement(tag), props, children);
}

/** The same of SVG. */
export function svg(tag, props, ...children) {
  return made(document.createElementNS(SVG, tag), props, children);
}

/** Puts these children in the place of those that a node has. */
export function fill(node, ...children) {
  node.replaceChildren(...flat(children));
  return node;
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
