// The controls of a view: range, keys, measures, layer. Every choice is written to the address, which decides what is shown.

import { go, to } from "../lib/address.js";
import { h } from "../lib/dom.js";
import { changed, hasTime, keyOf, LAYERS, layerOf, SPANS, spanName, withKey } from "../lib/question.js";
import { chosenZone, instant, wall, zonesOf } from "../lib/zone.js";
import { checks } from "./checks.js";
import { button, field } from "./section.js";

const ZONE_NOTES = { view: ", the view\u2019s", utc: "", local: ", this browser\u2019s" };
const LAYER_NAMES = { merged: "merged", batch: "batch part", speed: "realtime part" };

/** The form for a view; `set` shows an address, `offer` adds suggestions for values of keys. */
export function controls(view, path) {
  let query = new URLSearchParams();
  const timed = hasTime(view);
  const layer = choice("layer", LAYERS.map((name) => [name, LAYER_NAMES[name]]), (value) => move({ layer: value === "merged" ? null : value }));
  const zones = zonesOf(view);
  const zone = h("select", { on: { change: () => move({ zone: zone.value === Object.keys(zones)[0] ? null : zone.value }) } }, Object.entries(zones).map(([name, text]) => h("option", { value: name }, `${text}${ZONE_NOTES[name]}`)));
  const range = timed ? ranges((values) => move(values), () => chosenZone(query, view)) : null;
  const keys = view.keys.map((name) => keyPicker(name, (picked) => go(to(path, withKey(query, name, picked)))));
  const measures = checks("measures", view.measures, (on) => move({ measures: on.length === 0 || on.length === view.measures.length ? null : on.join(",") }));
  const node = h(
    "form",
    { class: "controls", "aria-label": "What is shown", on: { submit: (event) => event.preventDefault() } },
    layer.node,
    range?.node,
    field("zone", zone),
    keys.map((key) => key.node),
    measures.node,
    button("Reset", () => go(to(path)), { class: "quiet" }),
  );

  function move(values) {
    go(to(path, changed(query, values)));
  }

  return {
    node,
    set(next) {
      query = next;
      layer.set(layerOf(query));
      zone.value = Object.keys(zones).find((name) => name === query.get("zone")) ?? Object.keys(zones)[0];
      range?.set(query);
      for (const key of keys) key.set(keyOf(query, key.name));
      measures.set(query.get("measures")?.split(",") ?? view.measures);
    },
    offer(rows) {
      for (const key of keys) key.offer(rows.map((row) => row[key.name]));
    },
  };
}

function choice(name, options, picked) {
  const inputs = options.map(([value]) => h("input", { type: "radio", name, value, on: { change: () => picked(value) } }));
  const labels = options.map(([, text], at) => h("label", {}, inputs[at], h("span", {}, text)));
  return {
    node: h("fieldset", { class: "choice" }, h("legend", {}, name), h("div", {}, labels)),
    set: (value) => inputs.forEach((input) => (input.checked = input.value === value)),
  };
}

function ranges(picked, zone) {
  const select = h(
    "select",
    { on: { change: chosen } },
    h("option", { value: "" }, "all time"),
    Object.keys(SPANS).map((name) => h("option", { value: name }, spanName(name))),
    h("option", { value: "between" }, "between \u2026"),
  );
  const [from, until] = ["from", "to"].map((name) => h("input", { type: "datetime-local", step: "1", "aria-label": name, on: { change: () => picked({ last: null, [name]: utc(name === "from" ? from.value : until.value, zone()) }) } }));
  const bounds = h("span", { class: "bounds" }, from, h("span", {}, "to"), until);

  function chosen() {
    bounds.hidden = select.value !== "between";
    if (select.value !== "between") picked({ last: select.value || null, from: null, to: null });
    else from.focus();
  }

  return {
    node: h("div", { class: "range" }, field("range", select), bounds),
    set(query) {
      const between = query.get("from") !== null || query.get("to") !== null;
      select.value = between ? "between" : (query.get("last") ?? "");
      bounds.hidden = !between;
      from.value = local(query.get("from"), zone());
      until.value = local(query.get("to"), zone());
    },
  };
}

function utc(text, zone) {
  return text === "" ? null : new Date(instant(text, zone)).toISOString().replace(".000", "");
}

function local(text, zone) {
  const at = text === null ? NaN : Date.parse(/[zZ]|[+-]\d\d:?\d\d$/.test(text) ? text : `${text}Z`);
  return Number.isNaN(at) ? "" : wall(at, zone).slice(0, 19);
}

function keyPicker(name, picked) {
  const list = h("datalist", { id: `values-of-${name}` });
  const text = h("input", { type: "text", "aria-label": `value of ${name}`, spellcheck: "false", autocomplete: "off", list: list.id, hidden: true, on: { change: () => picked({ isNull: false, text: text.value }) } });
  const select = h(
    "select",
    { on: { change: chosen } },
    h("option", { value: "any" }, "any"),
    h("option", { value: "is" }, "is \u2026"),
    h("option", { value: "null" }, "is NULL"),
  );

  function chosen() {
    text.hidden = select.value !== "is";
    if (select.value === "is") text.focus();
    else picked(select.value === "null" ? { isNull: true, text: "" } : null);
  }

  return {
    name,
    node: h("div", { class: "key" }, field(name, select), text, list),
    set(choice) {
      if (document.activeElement === text && choice === null) return;
      select.value = choice === null ? "any" : choice.isNull ? "null" : "is";
      text.hidden = select.value !== "is";
      text.value = choice?.text ?? "";
    },
    offer(values) {
      const found = [...new Set(values.filter((value) => value !== null && value !== undefined && typeof value !== "object").map(String))];
      list.replaceChildren(...found.slice(0, 200).map((value) => h("option", { value })));
    },
  };
}
