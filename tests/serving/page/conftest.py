"""The machine's own Chromium, driven by Playwright, and a server with a page for it."""

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tandem.serving.access.rights import VERBS
from tests.serving.http.served import Served, serving
from tests.serving.page.site import hostile, site, year
from tests.serving.world import NOON

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# As root there is no sandbox, and nobody is to be asked but the server of the test.
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# A machine that does a hundred other things may take as long; nothing waits longer than it has to.
_PATIENCE_MS = 150_000

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = next(filter(None, map(shutil.which, _NAMES)), None)
    if executable is None:
        pytest.skip(f"no browser: none of {', '.join(_NAMES)} is installed")
    expect.set_options(timeout=_PATIENCE_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable, args=_FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(site(tmp_path_factory.mktemp("site")), {"poll_ms": 20})


@pytest.fixture(scope="module")
def address(served: Served) -> Iterator[str]:
    with serving(served) as found:
        yield found


@pytest.fixture(scope="module")
def secret(served: Served) -> str:
    return served.token("visitor", may=VERBS)


@pytest.fixture(scope="module")
def hostile_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    made = Served(hostile(tmp_path_factory.mktemp("hostile")), {"poll_ms": 20})
    with serving(made) as found:
        yield found, made.token("visitor", may=VERBS)


@pytest.fixture(scope="module")
def year_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    made = Served(year(tmp_path_factory.mktemp("year")), {"poll_ms": 20})
    with serving(made) as found:
        yield found, made.token("visitor", may=VERBS)


@pytest.fixture
def open_page(browser: Browser, address: str, secret: str) -> Iterator[Open]:
    """Opens a page, by default as somebody who may everything; none of them may have said an error when the test ends."""
    contexts, wrong = [], []

    def opened(path: str = "#/", *, at: str = address, shown: str | None = secret, **how: object) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **how})  # type: ignore[arg-type]
        context.set_default_timeout(_PATIENCE_MS)
        context.clock.set_fixed_time(NOON + timedelta(minutes=4))
        contexts.append(context)
        if shown is not None:
            context.add_init_script(f"sessionStorage.getItem('begun') ?? sessionStorage.setItem('tandem.token', '{shown}');")
            context.add_init_script("sessionStorage.setItem('begun', '1')")
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
        page.on("dialog", lambda dialog: dialog.accept())
        page.goto(f"{at}/{path}")
        return page

    yield opened
    for context in contexts:
        # Without this, a changed answer under way raises in the next test. Waiting hangs if a test never continues a request.
        for page in context.pages:
            page.unroute_all(behavior="ignoreErrors")
        context.close()
    assert not wrong
