// The frame of every page: navigation, the session, and whether the server answers.

import { to } from "../lib/address.js";
import { fill, h } from "../lib/dom.js";
import { release } from "../lib/release.js";
import { badge, button } from "./section.js";

/** The frame's nodes, its `main`, and `mark`, which highlights the current page. */
export function shell({ me, status, leave, announced }) {
  const may = (verb) => me.verbs.includes(verb);
  const links = [
    link("Pipeline", []),
    may("read") && link("Accuracy", ["accuracy"]),
    may("admin") && link("Releases", ["releases"]),
    may("admin") && link("Quarantine", ["quarantine"]),
    may("sql") && link("SQL", ["sql"]),
    may("ingest") && link("Send an event", ["send"]),
  ].filter(Boolean);
  const views = h("ul", { class: "views" });
  const connection = h("span", { class: "connection" });
  const banner = h("div", { class: "banner", role: "alert", hidden: true });
  const trial =
    release === null
      ? null
      : h(
          "div",
          { class: "trial", role: "region", "aria-label": "Release" },
          h("span", {}, "Release ", h("bdi", {}, release), ", not live: views and SQL answer as if it were promoted now."),
          h("a", { href: location.pathname }, "To the live release"),
        );
  const main = h("main", { id: "main", tabindex: "-1" });
  // On a narrow screen the style sheet shows this button, and the links only while it is pressed.
  const menu = button("Menu", () => unfold(!nav.classList.contains("unfolded")), { class: "menu", "aria-expanded": "false", "aria-controls": "links" });
  const nav = h(
    "nav",
    { "aria-label": "Pages", on: { keydown: (event) => event.key === "Escape" && fold() } },
    h("a", { class: "brand", href: "#/" }, h("img", { src: "/page/icon.svg", alt: "", width: 22, height: 22 }), "Tandem"),
    menu,
    h("ul", { id: "links" }, links),
    h("div", { id: "views-heading", class: "label" }, "Views"),
    views,
    h(
      "div",
      { class: "who" },
      h("span", { class: "name", title: `Until ${me.expires}` }, h("bdi", {}, me.name)),
      h("span", { class: "rights" }, me.verbs.map((verb) => badge(verb)), me.rows.length ? badge("restricted to rows") : null),
      button("Sign out", leave),
    ),
  );
  views.setAttribute("aria-labelledby", "views-heading");
  let names = "";
  let place = [];
  let down = false;
  let still = "";

  function unfold(open) {
    nav.classList.toggle("unfolded", open);
    menu.setAttribute("aria-expanded", String(open));
  }

  function fold() {
    if (!nav.classList.contains("unfolded")) return;
    unfold(false);
    menu.focus();
  }

  function mark(path) {
    place = path;
    unfold(false);
    highlight();
  }

  function highlight() {
    for (const one of nav.querySelectorAll("a:not(.brand)")) {
      const here = one.getAttribute("href") === to(place.slice(0, 2));
      if (here) one.setAttribute("aria-current", "page");
      else one.removeAttribute("aria-current");
    }
  }

  status.subscribe((found) => {
    const live = found.state === "live";
    const red = live ? (found.status?.parts ?? []).filter((part) => part.red) : [];
    const said = live ? red.map((part) => `${part.part} ${part.state.replace("_", " ")}`).join(", ") || "live" : "no answer";
    connection.className = `connection ${said === "live" ? "good" : "bad"}`;
    fill(connection, h("span", { class: "dot", "aria-hidden": "true" }), said);
    banner.hidden = said === "live";
    const why = red.map((part) => part.sentence).join("\n");
    if (live && why !== still) {
      if (still && !red.length) announced.say("All parts are running again.");
      still = why;
      fill(banner, red.map((part) => h("p", {}, `${part.sentence[0].toUpperCase()}${part.sentence.slice(1)}.`)));
    }
    if (!live) {
      still = null;
      const what = found.state === "gone" ? "The server does not answer. The page shows the last data." : found.why;
      fill(banner, h("span", {}, what, ` Trying again every ${Math.round(found.again / 1000)} s.`), button("Try now", status.retry));
    } else if (down) announced.say("The server answers again.");
    down = !live;
    const now = Object.keys(found.status?.views ?? {}).sort();
    if (now.join("\n") === names) return;
    names = now.join("\n");
    fill(views, now.map((name) => link(name, ["views", name])));
    highlight();
  });

  const skip = h(
    "a",
    {
      class: "skip",
      href: "#main",
      on: {
        click(event) {
          // The address stays: its part after # names the page.
          event.preventDefault();
          main.focus();
        },
      },
    },
    "Skip to the content",
  );
  const top = h("header", { class: "top" }, connection);
  return { nodes: [skip, nav, h("div", { class: "body" }, top, banner, trial, main), announced.region], main, mark };
}

function link(text, path) {
  return h("li", {}, h("a", { href: to(path) }, h("bdi", {}, text)));
}
