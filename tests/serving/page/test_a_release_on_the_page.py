"""`?release=2` in the address of the page: all views and SQL are those of the release, and a banner says that it is not live."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tandem.serving.access.rights import VERBS
from tests.serving.http.served import Served, serving
from tests.serving.page.test_the_page_in_a_browser import rows, settled
from tests.serving.two_releases import applied, build, edited
from tests.serving.world import World, hit, position

Open = Callable[..., Page]


@pytest.fixture
def site_of_two(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of a server whose release 2 is ready beside the live one, and a token."""
    world = World(tmp_path)
    world.append(0, *(hit("/", n) for n in range(12)))
    for end in (4, 8, 12):
        world.trigger(position(end))
    world.recompute(position(4))
    ready = applied(world, edited("another filter", "one view more"))
    for end in (8, 12):
        ready.trigger(position(end))
    build(ready, position(8))
    served = Served(world, {"poll_ms": 20})
    with serving(served) as address:
        yield address, served.token("visitor", may=VERBS)


@pytest.mark.slow
def test_views_and_sql_are_those_of_the_release_and_a_banner_says_so(open_page: Open, site_of_two: tuple[str, str]) -> None:
    at, secret = site_of_two
    live = settled(open_page("#/views/ever", at=at, shown=secret))
    expect(live.locator(".trial")).to_have_count(0)
    page = settled(open_page("?release=2#/views/ever", at=at, shown=secret))
    expect(page.locator(".trial")).to_have_text(
        "Release 2, not live: views and SQL answer as if it were promoted now.To the live release"
    )
    assert rows(page) != rows(live), "the release has another filter"
    page.get_by_role("link", name="SQL").click()
    settled(page)
    expect(page.get_by_text("also").first).to_be_visible()
    assert not Axe().run(page).response["violations"]
    page.get_by_role("link", name="To the live release").click()
    settled(page)
    expect(page.locator(".trial")).to_have_count(0)


def test_a_release_that_cannot_be_asked_is_named(open_page: Open, site_of_two: tuple[str, str]) -> None:
    at, secret = site_of_two
    page = open_page("?release=7#/views/ever", at=at, shown=secret)
    expect(page.locator("main")).to_contain_text("release 7")


@pytest.mark.slow
def test_a_stream_that_is_refused_says_why(open_page: Open, site_of_two: tuple[str, str]) -> None:
    at, secret = site_of_two
    page = settled(open_page("?release=2#/views/ever", at=at, shown=secret))
    page.route("**/views/ever/changes*", lambda route: route.fulfill(status=404, json={"detail": "release 2 was retired"}))
    page.reload()
    expect(page.get_by_text("release 2 was retired", exact=True)).to_be_visible()
