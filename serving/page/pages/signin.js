// Asks for a token. It is kept in this tab's session storage and sent as a header; it never stands in a URL.

import { h } from "../lib/dom.js";
import { remember } from "../lib/session.js";

/** The form; `done` is called once a token was given, `why` says why one is asked for again. */
export function signIn({ why, done }) {
  const secret = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true, id: "secret", "aria-describedby": "why how" });
  function given(event) {
    event.preventDefault();
    const text = secret.value.trim();
    if (text === "" || /[^\x21-\x7e]/.test(text)) {
      secret.setCustomValidity("A token has no spaces and no letters beyond ASCII.");
      secret.reportValidity();
      return;
    }
    remember(text);
    done();
  }
  return h(
    "main",
    { class: "signin" },
    h("img", { src: "/page/icon.svg", alt: "", width: 40, height: 40 }),
    h("h1", {}, "Tandem"),
    h(
      "form",
      { on: { submit: given } },
      h("label", { for: "secret" }, "Token"),
      secret,
      h("p", { id: "why", class: "problem", role: "alert" }, why),
      h("button", { type: "submit", class: "first" }, "Sign in"),
    ),
    h(
      "p",
      { id: "how", class: "note" },
      "The first start of ",
      h("code", {}, "tandem serve"),
      " leaves a token with all rights in ",
      h("code", {}, ".tandem/access/first.token"),
      "; ",
      h("code", {}, "tandem token create"),
      " makes others. This tab keeps it until it is closed.",
    ),
  );
}
