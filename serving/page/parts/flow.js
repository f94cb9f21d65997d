// The architecture as a picture with live figures: the log, batch beside speed, the answers.

import { fill, h, svg } from "../lib/dom.js";
import { number } from "../lib/format.js";

/** The picture, and `tell`, which sets its figures. */
export function flow() {
  const boxes = {
    log: box("Log", "log"),
    batch: box("Batch", "batch"),
    speed: box("Speed", "realtime"),
    answers: box("Answers", "answers"),
  };
  const lag = h("span", { class: "lag" });
  const rate = h("span", { class: "rate" });
  const archive = h("span", { class: "rate" });
  const node = h(
    "div",
    { class: "flow", role: "group", "aria-label": "From the log through batch and speed to answers" },
    boxes.log.node,
    wires(["batch", "realtime"], false),
    h("div", { class: "layers" }, boxes.batch.node, boxes.speed.node),
    wires(["batch", "realtime"], true),
    boxes.answers.node,
  );
  boxes.log.node.append(lag);
  boxes.batch.node.append(archive);
  boxes.speed.node.append(rate);

  function tell(figures) {
    boxes.log.set(figures.log);
    boxes.batch.set(figures.cut);
    boxes.speed.set(figures.realtime);
    boxes.answers.set(figures.answers);
    fill(lag, !figures.end ? "end not known" : figures.lag === null ? "" : figures.lag === 0 ? "all counted" : `${number(figures.lag)} waiting`);
    lag.classList.toggle("behind", figures.lag > 0);
    fill(rate, figures.rate);
    fill(archive, figures.archive);
    node.classList.toggle("moving", figures.moving);
    node.classList.toggle("failed", figures.failed);
  }
  return { node, tell };
}

function box(name, tone) {
  const value = h("strong", {});
  const what = h("span", { class: "what" });
  return {
    node: h("div", { class: `box ${tone}` }, h("span", { class: "title" }, name), value, what),
    set(told) {
      if (value.textContent !== told.value) fill(value, told.value);
      fill(what, told.what);
    },
  };
}

/** Two wires that split after the log, or join before the answers. */
function wires(names, meet) {
  const paths = names.map((tone, place) => {
    const end = place === 0 ? 25 : 75;
    const d = meet ? `M0 ${end} C 50 ${end}, 50 50, 100 50` : `M0 50 C 50 50, 50 ${end}, 100 ${end}`;
    return svg("path", { d, class: `wire ${tone}`, "vector-effect": "non-scaling-stroke" });
  });
  return svg("svg", { class: "wires", viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" }, paths);
}
