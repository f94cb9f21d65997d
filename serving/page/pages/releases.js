// Steering for operators: what the project's definitions would change; apply, promote, roll back and retire releases.

import { ask } from "../lib/ask.js";
import { fill, h } from "../lib/dom.js";
import { ago, counted, number, span } from "../lib/format.js";
import { standingReleases } from "../parts/standing_releases.js";
import { outcome } from "../parts/outcome.js";
import { obstacle, problem } from "../parts/problem.js";
import { publications } from "../parts/publications.js";
import { badge, button, field, heading, section } from "../parts/section.js";

const EVERY_MS = 1000;
const NEWEST = 50;
const TONES = { running: "warn", done: "good", changes: "warn", failed: "bad", stopped: "plain" };
const ASKED = {
  apply: "Build the project's definitions as a release beside the live one?",
  promote: "Promote the ready release?",
  rollback: "Make an earlier publication live again?",
  retire: "Retire this release? It can no longer be promoted.",
  resume: "Allow recomputes to publish again?",
};

export function title() {
  return "Releases";
}

export function show(place, _, app, signal) {
  const why = h("input", { type: "text", maxlength: 500, autocomplete: "off" });
  const gate = h("input", { type: "text", maxlength: 500, autocomplete: "off", placeholder: "changed_keys < 1%", spellcheck: "false" });
  const wrong = h("div", {});
  const runs = h("div", { class: "runs" });
  const history = h("div", {});
  const beside = h("div", {});
  const kept = new Map();
  let live = null;
  let timer = null;
  let stood = "";

  const words = () => (why.value.trim() ? { why: why.value.trim() } : {});
  const guarded = () => ({ ...words(), ...(gate.value.trim() ? { gate: gate.value.trim() } : {}) });
  fill(
    place,
    heading("Releases"),
    h("p", { class: "doc" }, "Apply builds the project's definitions as a release beside the live one and compares all answers. Promote makes it live; answers do not change until then."),
    h(
      "form",
      { class: "controls steer", "aria-label": "Commands", on: { submit: (event) => event.preventDefault() } },
      button("Plan", () => start("plan", {}), { class: "first" }),
      button("Apply", () => start("apply", words())),
      button("Promote", () => start("promote", guarded())),
      button("Roll back", () => start("rollback", words())),
      button("Resume", () => start("resume", words())),
      field("why", why, "for the history"),
      field("gate of promote", gate, "only if all hold"),
    ),
    wrong,
    beside,
    section("Runs", runs),
    section("Publications", history),
  );

  async function start(verb, options) {
    if (ASKED[verb] && !confirm(ASKED[verb])) return;
    fill(wrong);
    try {
      await ask(`/runs/${verb}`, { method: "POST", body: options, signal });
      app.say(`${verb} has started.`);
      await look();
      runs.querySelector("details")?.setAttribute("open", "");
    } catch (error) {
      if (!signal.aborted) fill(wrong, problem(error));
    }
  }

  function steer(release) {
    return [
      button("Promote", () => start("promote", { ...guarded(), release }), { class: "quiet", "aria-label": `Promote release ${release}` }),
      " ",
      button("Retire", () => start("retire", { ...words(), release }), { class: "quiet", "aria-label": `Retire release ${release}` }),
    ];
  }

  async function stop(id) {
    try {
      await ask(`/runs/${encodeURIComponent(id)}`, { method: "DELETE", signal });
      await look();
    } catch (error) {
      if (!signal.aborted) fill(wrong, problem(error));
    }
  }

  async function look() {
    clearTimeout(timer);
    try {
      const found = (await ask("/runs", { signal })).runs;
      draw(found);
      if (found.some((run) => run.state === "running")) timer = setTimeout(look, EVERY_MS);
    } catch (error) {
      if (signal.aborted) return;
      fill(runs, obstacle(error, "Steering"));
      if (error.status === undefined) timer = setTimeout(look, 5 * EVERY_MS);
    }
  }

  function draw(found) {
    if (!found.length) {
      fill(runs, h("p", { class: "note" }, "No runs since the server started."));
      return;
    }
    const ids = found.map((run) => run.id);
    for (const id of kept.keys()) if (!ids.includes(id)) kept.delete(id);
    const nodes = found.map((run, at) => {
      if (!kept.has(run.id)) kept.set(run.id, runNode(at === 0, () => stop(run.id)));
      kept.get(run.id).tell(run);
      return kept.get(run.id).node;
    });
    // Nodes that are kept stay open and focused.
    if (nodes.some((node, at) => runs.children[at] !== node) || runs.children.length !== nodes.length) fill(runs, nodes);
  }

  async function published() {
    try {
      fill(history, publications((await ask(`/history?limit=${NEWEST}`, { signal })).publications, { live, actions: (one) => back(one) }));
    } catch (error) {
      if (!signal.aborted) fill(history, obstacle(error, "The list of publications"));
    }
  }

  function back(one) {
    if (one.publication === live) return null;
    const { publication } = one;
    return button("Back to it", () => start("rollback", { ...words(), publication }), { class: "quiet", "aria-label": `Roll back to publication ${publication}` });
  }

  look();
  if (!app.me.verbs.includes("read")) published();
  app.status.subscribe((found) => {
    if (!found.status) return;
    const standing = found.status.standing;
    if (JSON.stringify(standing) !== stood) {
      stood = JSON.stringify(standing);
      fill(beside, standingReleases(standing, (one) => steer(one.release)));
    }
    if (found.status.publication === live) return;
    live = found.status.publication;
    published();
  }, signal);
  signal.addEventListener("abort", () => clearTimeout(timer));
}

/** One run; `tell` updates it. */
function runNode(open, stop) {
  const summary = h("summary", {});
  const content = h("div", {});
  const node = h("details", { class: "run", open }, summary, content);
  let told = "";
  return {
    node,
    tell(run) {
      const text = JSON.stringify([run.state, run.lines, run.document, run.problem, run.stopping]);
      const seconds = ((run.ended === null ? Date.now() : Date.parse(run.ended)) - Date.parse(run.started)) / 1000;
      fill(summary, h("b", {}, run.verb), " ", badge(run.state, TONES[run.state]), ` ${ago(run.started)}, ${span(Math.max(0, seconds))}, by `, h("bdi", {}, run.by));
      if (text === told) return;
      told = text;
      fill(
        content,
        run.state === "running" ? button(run.stopping ? "Stopping \u2026" : "Stop", stop, { class: "quiet", disabled: run.stopping === true }) : null,
        outcome(run),
        run.lines.length ? h("details", { open: run.state === "running" }, h("summary", {}, `Progress, ${counted(run.lines.length, "line")}`), h("pre", { tabindex: "0" }, run.lines.join("\n"))) : null,
        run.exit === null ? null : h("p", { class: "note" }, `Exit code ${run.exit}.`),
      );
    },
  };
}
