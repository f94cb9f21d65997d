"""A number on the page lists its events by keyboard and on a phone, and says whether they make it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tandem.serving.access.rights import VERBS
from tests.serving.http.served import Served, serving
from tests.serving.why.test_the_events_behind_a_row import eventful
from tests.serving.world import position

PHONE = {"width": 390, "height": 844}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[tuple[str, str]]:
    world = eventful(tmp_path)
    world.file_in_archive(position(8))
    served = Served(world, {"poll_ms": 20})
    with serving(served) as at:
        yield at, served.token("visitor", may=VERBS)


@pytest.mark.each_run("keyboard")
@pytest.mark.parametrize("how", ["keyboard", "phone"])
def test_a_number_lists_its_events(open_page: Callable[..., Page], shop: tuple[str, str], how: str) -> None:
    at, secret = shop
    more = {"viewport": PHONE, "has_touch": True} if how == "phone" else {}
    page = open_page("#/views/hourly?key.city=OSLO&from=2026-11-01T08:00Z&to=2026-11-01T09:00Z", at=at, shown=secret, **more)
    number = page.locator(".number-origin").nth(1)
    expect(number).to_have_text("9.00")
    dialog = page.get_by_role("dialog")
    if how == "phone":
        number.tap()
        dialog.get_by_role("button", name="Show the events").tap()
    else:
        number.focus()
        page.keyboard.press("Enter")
        button = dialog.get_by_role("button", name="Show the events")
        button.focus()
        page.keyboard.press("Enter")
    expect(dialog).to_contain_text("Computed again from these events, it is the same.")
    events = dialog.get_by_role("table", name="5 events of sales").locator("tbody tr")
    cells = events.evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.textContent))")
    assert [(place, layer, value) for place, value, _, layer in cells] == [
        ("T/0:0", "batch", "1.00"),
        ("T/0:1", "batch", "2.50"),
        ("T/0:4", "batch", "0.50"),
        ("T/0:9", "speed, late", "4.00"),
        ("T/0:12", "speed, late", "1.00"),
    ]
    expect(dialog).to_contain_text("2 duplicates dropped")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not Axe().run(page).response["violations"]
