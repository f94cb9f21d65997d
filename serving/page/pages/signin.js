// Asks for a token. It is kept in this tab's session storage and sent as a header, never in a URL.

import { h } from "../lib/dom.js";
import { remember } from "../lib/session.js";

/** The form; `done` is called once a token was entered, `why` explains why another one is needed. */
export function signIn({ why, done }) {
  const secret = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true, id: "secret", "aria-describedby": "why how" });
  function given(event) {
    event.preventDefault();
    const text = secret.value.trim();
    if (text === "" || /[^\x21-\x7e]/.test(text)) {
      secret.setCustomValidity("A token contains only ASCII characters and no spaces.");
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
      " writes a token with all rights to ",
      h("code", {}, ".tandem/access/first.token"),
      "; ",
      h("code", {}, "tandem token create"),
      " creates others. This tab keeps the token until it is closed.",
    ),
  );
}
