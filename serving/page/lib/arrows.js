// Arrow keys among the buttons of a table's cells: one of them is in the order of Tab, the arrows lead to the others.

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/** Listens to keys in `node`; the buttons have the class `name`, and a tabindex of -1 but for the first. */
export function arrows(node, name) {
  node.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (step === undefined || !event.target.classList.contains(name)) return;
    event.preventDefault();
    const lines = [...node.querySelectorAll("tr")].map((row) => [...row.querySelectorAll(`.${name}`)]).filter((line) => line.length);
    const at = lines.findIndex((line) => line.includes(event.target));
    const next = lines[at + step[0]]?.[lines[at].indexOf(event.target) + step[1]];
    if (next === undefined) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}
