"""What a person sees of the page in a real browser: axes, bars, zones and tables, on a wide screen and on a phone."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect

from tests.serving.page.test_the_page_in_a_browser import changed, downloads, rows, settled

pytestmark = pytest.mark.slow

Open = Callable[..., Page]
Served = tuple[str, str]

PHONE = {"width": 390, "height": 844}
WIDE = {"width": 1280, "height": 860}
TEXTS = """
    const drawn = CanvasRenderingContext2D.prototype.fillText;
    window.texts = [];
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        if (this.textAlign === 'center') {
            const half = this.measureText(text).width / 2;
            window.texts.push({ text, y, left: x - half, right: x + half, most: this.canvas.width });
        }
        drawn.apply(this, arguments);
    };
"""
FILLED = """
    () => {
        const canvas = document.querySelector('.plot canvas');
        const { data } = canvas.getContext('2d').getImageData(0, canvas.height - 70, canvas.width, 1);
        const filled = [];
        for (let at = 0; at < canvas.width; at += 1) {
            const [red, green, sky, alpha] = data.slice(4 * at, 4 * at + 4);
            if (alpha > 200 && Math.max(red, green, sky) - Math.min(red, green, sky) > 60) filled.push(at);
        }
        return filled.length / (filled.at(-1) - filled[0]);
    }
"""


@pytest.mark.parametrize("size", [pytest.param(WIDE, marks=pytest.mark.slow), PHONE], ids=["wide", "phone"])
def test_labels_of_the_time_axis_neither_collide_nor_are_cut(open_page: Open, year_address: Served, size: dict[str, int]) -> None:
    at, shown = year_address
    page = open_page("#/sql", at=at, shown=shown, viewport=size)
    page.add_init_script(TEXTS)
    for name in ("daily", "monthly", "page_traffic"):
        page.goto(f"{at}/#/views/{name}")
        page.reload()
        settled(page)
        page.wait_for_function("() => window.texts.length")
        texts: list[dict[str, Any]] = page.evaluate("() => window.texts")
        for y in {one["y"] for one in texts}:
            # Each drawing writes the labels from left to right.
            line = [one for one in texts if one["y"] == y]
            assert all(one["left"] >= 0 and one["right"] <= one["most"] for one in line), (name, line)
            assert all(one["right"] + 4 <= other["left"] or other["left"] <= one["left"] for one, other in pairwise(line)), (
                name,
                line,
            )


def test_the_bars_of_months_fill_their_months(open_page: Open, year_address: Served) -> None:
    at, shown = year_address
    page = settled(open_page("#/views/monthly", at=at, shown=shown))
    expect(page.locator(".chart figcaption")).to_contain_text("13 windows")
    assert page.evaluate(FILLED) > 0.8


def test_a_day_of_new_york_is_named_in_new_york(open_page: Open, year_address: Served) -> None:
    at, shown = year_address
    page = settled(open_page("#/views/daily", at=at, shown=shown, timezone_id="Asia/Kolkata"))
    named = lambda: [cells[0] for cells in rows(page)][:2]  # noqa: E731  the same question three times
    assert named() == ["2026-10-31", "2026-10-30"]
    expect(page.locator(".chart figcaption")).to_contain_text("to 2026-10-31 00:00 \u221204:00")
    page.get_by_label("zone").select_option("utc")
    expect(page.get_by_role("table")).to_contain_text("2026-10-31 04:00")
    assert "zone=utc" in page.url
    page.get_by_label("zone").select_option("local")
    expect(page.get_by_role("table")).to_contain_text("2026-10-31 09:30 +05:30")
    page.reload()
    settled(page)
    assert named() == ["2026-10-31 09:30 +05:30", "2026-10-30 09:30 +05:30"]
    page.get_by_label("zone").select_option("view")
    expect(page.get_by_role("table")).not_to_contain_text("+05:30")
    assert "zone" not in page.url


def test_a_range_is_of_the_chosen_zone(open_page: Open, year_address: Served) -> None:
    at, shown = year_address
    page = settled(open_page("#/views/daily", at=at, shown=shown))
    page.get_by_label("range").select_option("between")
    page.get_by_label("from", exact=True).fill("2026-10-30T00:00:00")
    page.get_by_label("from", exact=True).press("Enter")
    expect(page.get_by_role("table")).to_contain_text("rows 1 to 2 of 2")
    assert "from=2026-10-30T04%3A00%3A00Z" in page.url
    expect(page.get_by_label("from", exact=True)).to_have_value("2026-10-30T00:00")


def test_zones_follow_their_clocks(open_page: Open) -> None:
    """Where clocks change, and before zones had whole hours."""
    page = settled(open_page())
    told = page.evaluate(
        """async () => {
            const { instant, zoned } = await import('/page/lib/zone.js');
            const zone = 'America/New_York';
            const utc = (text) => new Date(instant(text, zone)).toISOString();
            return [
                zoned('2026-11-01T05:59:59.000001Z', zone), zoned('2026-11-01T06:00:00Z', zone),
                zoned('1800-01-01T00:00:00Z', zone),
                zoned('2026-11-01T06:00:00Z', 'UTC'), utc('2026-03-08T00:00'), utc('2026-03-09T00:00'),
            ];
        }"""
    )
    assert told == [
        "2026-11-01 01:59:59.000001 \u221204:00",
        "2026-11-01 01:00 \u221205:00",
        "1799-12-31 19:03:58 \u221204:56:02",
        "2026-11-01 06:00",
        "2026-03-08T05:00:00.000Z",
        "2026-03-09T04:00:00.000Z",
    ]


def test_a_row_with_structs_is_as_high_as_a_line(open_page: Open, year_address: Served) -> None:
    at, shown = year_address
    page = settled(open_page("#/views/monthly", at=at, shown=shown))
    page.wait_for_selector(".rows tbody tr")
    # In one step: the table may be drawn again between two.
    assert max(page.eval_on_selector_all(".rows tbody tr", "rows => rows.map(row => row.offsetHeight)")) < 34
    page.locator(".structs summary").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".structs table").first).to_contain_text("estimate")
    # The row stays open when its table is drawn again.
    page.get_by_label("zone").select_option("utc")
    page.get_by_label("zone").select_option("view")
    expect(page.locator(".structs[open]")).to_have_count(1)
    page.goto(f"{at}/#/views/daily")
    settled(page)
    page.wait_for_selector(".rows .list")
    assert max(page.eval_on_selector_all(".rows tbody tr", "rows => rows.map(row => row.offsetHeight)")) < 34


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_all_of_twelve_tables_are_listed(open_page: Open, size: dict[str, int]) -> None:
    page = open_page(viewport=size)
    changed(page, "**/views", lambda found: found.update(views=[found["views"][0] | {"name": f"table_{n}"} for n in range(12)]))
    page.get_by_role("heading", name="Pipeline").wait_for()
    page.evaluate("() => { location.hash = '#/sql'; }")
    expect(page.locator(".known summary")).to_have_count(12)
    assert page.locator(".known").evaluate("known => known.scrollHeight <= known.clientHeight")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_a_phone_shows_the_page_before_the_navigation(open_page: Open) -> None:
    page = settled(open_page("#/views/page_traffic", viewport=PHONE))
    assert page.locator("h1").evaluate("heading => heading.getBoundingClientRect().y") < 90
    menu, link = page.get_by_role("button", name="Menu"), page.get_by_role("link", name="Accuracy")
    expect(link).to_be_hidden()
    menu.focus()
    page.keyboard.press("Enter")
    expect(link).to_be_visible()
    page.keyboard.press("Escape")
    expect(link).to_be_hidden()
    expect(menu).to_be_focused()
    page.keyboard.press("Space")
    link.press("Enter")
    expect(page.get_by_role("heading", name="Accuracy")).to_be_visible()
    expect(link).to_be_hidden()


def test_quarantine_opens_on_a_source_that_has_records(open_page: Open) -> None:
    page = open_page()
    changed(page, "**/status", lambda status: status["sources"].update(empty=status["sources"]["hits"]))
    page.route("**/quarantine/empty?*", lambda asked: asked.fulfill(json={"counts": {}, "rows": [], "next": None}))
    page.reload()
    settled(page)
    page.evaluate("() => { location.hash = '#/quarantine'; }")
    expect(page.get_by_role("table")).to_contain_text("broken")
    expect(page.get_by_label("source")).to_have_value("hits")
    page.get_by_label("source").select_option("empty")
    expect(page.get_by_role("table")).to_contain_text("The quarantine is empty")


def test_the_result_of_sql_can_be_saved(open_page: Open, tmp_path: Path) -> None:
    page = settled(open_page("#/sql?statement=SELECT%20'%3D1'%20AS%20a%2C%202%20AS%20b"))
    files = downloads(page, tmp_path)
    assert files["CSV"].read_bytes() == b'"a","b"\r\n"\'=1",2\r\n'
    assert pa.ipc.open_stream(files["Arrow"].read_bytes()).read_all().to_pylist() == [{"a": "=1", "b": 2}]
