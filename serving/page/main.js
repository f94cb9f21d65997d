// The entry point: the session, and the page that the address names.

import { ask } from "./lib/ask.js";
import { announcer } from "./lib/announce.js";
import { read, to } from "./lib/address.js";
import { fill, h } from "./lib/dom.js";
import { forget, onForgotten, token } from "./lib/session.js";
import { statusFeed } from "./lib/status.js";
import * as accuracy from "./pages/accuracy.js";
import * as pipeline from "./pages/pipeline.js";
import * as quarantine from "./pages/quarantine.js";
import * as releases from "./pages/releases.js";
import * as send from "./pages/send.js";
import { signIn } from "./pages/signin.js";
import * as sql from "./pages/sql.js";
import * as view from "./pages/view.js";
import { shell } from "./parts/shell.js";

const PAGES = { "": pipeline, views: view, accuracy, releases, quarantine, sql, send };

let running = null;

async function start(why = "") {
  running?.stop();
  running = null;
  if (token() === null) return signedOut(why);
  try {
    running = signedIn(await ask("/me"));
  } catch (error) {
    // An invalid token is already deleted, and the page asks for another one.
    if (token() !== null) signedOut(error.message);
  }
}

function signedOut(why) {
  document.title = "Sign in \u2013 Tandem";
  fill(document.body, signIn({ why, done: () => start() }));
  document.querySelector("input").focus();
}

function signedIn(me) {
  const status = statusFeed();
  const announced = announcer();
  const frame = shell({ me, status, leave: () => forget("You have signed out."), announced });
  const app = { me, status, say: announced.say };
  let left = null;
  let page = null;

  function show() {
    const address = read();
    const found = PAGES[address.path[0] ?? ""] ?? null;
    frame.mark(address.path);
    // The same page with other parameters is drawn again: focus and typed text are kept.
    if (page !== null && found !== null && page.module === found && page.place === address.path.join("/") && page.moved) {
      page.moved(address);
      return;
    }
    left?.abort();
    left = new AbortController();
    const title = found === null ? "No such page" : found.title(address);
    document.title = `${title} \u2013 Tandem`;
    const moved = found === null ? void nothing(frame.main) : found.show(frame.main, address, app, left.signal);
    if (page !== null) frame.main.querySelector("h1")?.focus();
    page = { module: found, place: address.path.join("/"), moved };
    scrollTo(0, 0);
  }

  fill(document.body, frame.nodes);
  addEventListener("hashchange", show);
  show();
  return {
    stop() {
      left?.abort();
      status.stop();
      removeEventListener("hashchange", show);
    },
  };
}

function nothing(place) {
  fill(place, h("h1", { tabindex: "-1" }, "No such page"), h("p", {}, "The address does not name a page. ", h("a", { href: to([]) }, "To the pipeline")));
}

onForgotten((why) => start(why));
start();
