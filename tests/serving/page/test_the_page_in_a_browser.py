"""The web page in a real browser, on real tables: it shows the server's answers, live, whatever the keys contain."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pyarrow as pa
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from tandem.infra.process import pulse
from tandem.infra.process.pulse import Heart
from tandem.ledger.publish.audits import Audits
from tandem.ledger.publish.publications import Publications
from tandem.ledger.realtime_writer import Writer
from tandem.serving.access import tokens
from tandem.serving.access.rights import VERBS
from tandem.serving.status.releases import document_of
from tandem.views.condition_result import ConditionResult
from tests.serving.http.served import Served, serving
from tests.serving.page.site import DEFINITIONS, HOSTILE, HUGE, LONG, hit
from tests.serving.sql.test_every_type_of_sql_is_rendered import TEXTS, scalar
from tests.serving.world import NOON, SOURCE, World, one_ready, position

Open = Callable[..., Page]

PAGES = ("#/", "#/views", "#/views/page_traffic", "#/views/totals", "#/accuracy", "#/releases", "#/quarantine", "#/sql", "#/send")
PICTURES = (
    ("pipeline-light", "#/", "light"),
    ("view-light", "#/views/page_traffic", "light"),
    ("view-dark", "#/views/page_traffic", "dark"),
    ("accuracy-dark", "#/accuracy", "dark"),
)


def settled(page: Page) -> Page:
    """The page once nothing of it waits any more."""
    page.wait_for_function("() => document.querySelector('h1') && !document.querySelector('.waiting:not(:empty)')")
    return page


def rows(page: Page) -> list[list[str]]:
    """The texts of the cells of the rows of a view."""
    page.wait_for_selector(".rows tbody tr")
    found: list[list[str]] = page.eval_on_selector_all(
        ".rows .scroll > table > tbody > tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return found


def downloads(page: Page, folder: Path) -> dict[str, Path]:
    """The files that the page saves, by format."""
    files = {}
    for kind in ("CSV", "Arrow"):
        with page.expect_download() as downloading:
            page.get_by_role("button", name=f"Download as {kind}").click()
        files[kind] = folder / downloading.value.suggested_filename
        downloading.value.save_as(files[kind])
    return files


def answer(address: str, secret: str, path: str, **parameters: object) -> httpx.Response:
    headers = {"Authorization": f"Bearer {secret}"}
    return httpx.get(f"{address}{path}", params=parameters, headers=headers, timeout=60)  # type: ignore[arg-type]


def test_a_typed_token_is_in_no_address(open_page: Open, secret: str) -> None:
    page = open_page(shown=None)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_label("Token").fill("tandem_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("the token is unknown, expired or revoked")
    page.get_by_label("Token").fill(secret)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Pipeline")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_focused()
    assert page.evaluate("[sessionStorage.getItem('tandem.token'), localStorage.length, document.cookie]") == [None, 0, ""]
    assert asked
    assert not any(secret in url for url in [*asked, page.url])


def test_the_pipeline_has_the_positions_of_the_status(open_page: Open, address: str, secret: str) -> None:
    status = answer(address, secret, "/status").json()
    state = status["sources"]["hits"]
    cut, end = (sum(state[name]["T"].values()) for name in ("cut", "realtime"))
    page = settled(open_page())
    assert page.locator(".box.batch strong").text_content() == str(cut)
    assert page.locator(".box.realtime strong").text_content() == str(end - cut)
    expect(page.locator(".summary")).to_contain_text(f"Publication {status['publication']}")
    assert page.locator(".partition").count() == 2
    expect(page.locator(".partition").first).to_contain_text(f"cut {state['cut']['T']['0']}")
    expect(page.get_by_role("table", name="Publications")).to_contain_text("recompute")
    advice = page.get_by_role("table", name="Parts of the installation")
    expect(advice.locator("code").first).to_have_text("tandem up")
    expect(advice).not_to_contain_text("`")


def test_a_view_shows_the_rows_of_the_answer(open_page: Open, address: str, secret: str) -> None:
    found = answer(address, secret, "/views/page_traffic/rows", limit=100, order="-window_start").json()
    page = settled(open_page("#/views/page_traffic"))
    shown = rows(page)
    assert len(shown) == 100
    states = {"open": "open", "on_time": "on time", "final": "final"}
    for cells, row in zip(shown, found["rows"], strict=True):
        assert [cells[0], cells[2], cells[3]] == [row["page"], states[row["window_state"]], str(row["hits"])]
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("table")).to_contain_text(f"rows 101 to {found['total']} of {found['total']}")
    assert len(rows(page)) == found["total"] - 100


@pytest.mark.slow
def test_choices_are_in_the_address_and_a_reload_shows_the_same_page(open_page: Open, address: str, secret: str) -> None:
    page = settled(open_page("#/views/page_traffic"))
    page.get_by_role("link", name="/docs").first.click()
    page.get_by_label("realtime part").check()
    page.get_by_role("form", name="What is shown").get_by_role("checkbox", name="bytes").uncheck()
    page.get_by_role("button", name="hits").click()
    page.get_by_label("range").select_option("6h")
    expect(page.get_by_role("table")).to_contain_text("layer speed alone")
    for part in ("key.page=%2Fdocs", "layer=speed", "measures=hits%2Cvisitors%2Clatency%2Cslowest", "order=hits", "last=6h"):
        assert part in page.url
    page.wait_for_function("() => document.querySelectorAll('thead th').length === 7")
    wanted = {"key.page": "/docs", "layer": "speed", "order": "hits", "from": "2026-11-01T06:00:00Z"}
    told = answer(address, secret, "/views/page_traffic/rows", **wanted).json()["rows"]
    page.wait_for_function(f"() => document.querySelectorAll('.rows tbody tr').length === {len(told)}")
    before = rows(page)
    assert [cells[3] for cells in before] == [str(row["hits"]) for row in told]
    assert page.locator("th[aria-sort=ascending]").text_content() == "hits↑, sorted upwards"
    page.reload()
    settled(page)
    page.wait_for_function(f"() => document.querySelectorAll('.rows tbody tr').length === {len(told)}")
    assert rows(page) == before
    assert page.get_by_label("realtime part").is_checked()
    page.go_back()
    expect(page.get_by_label("range")).to_have_value("")


@pytest.mark.slow
def test_a_chart_of_values_that_add_up_has_both_parts(open_page: Open, address: str, secret: str) -> None:
    """The chart's columns are those of the answers of the layers, window by window."""
    page = settled(open_page("#/views/page_traffic"))
    expect(page.locator(".chart figcaption")).not_to_be_empty()
    expect(page.get_by_role("img", name="Chart")).to_have_attribute("aria-label", "Chart of page_traffic. " + caption(page))
    assert page.locator(".chart .legend li").all_text_contents()[:2] == ["realtime part ", "batch part "]
    drawn = page.evaluate(
        """async ([rows, speed]) => {
            const { overTime } = await import('/page/lib/picture.js');
            const measure = { name: 'hits', adds: true, kind: 'integer' };
            const data = overTime({ rows, whole: true, speed, measure, columns: [{ name: 'page', part: 'key' }] });
            return [data.xs, ...data.series.map((one) => one.ys)];
        }""",
        [answer(address, secret, "/views/page_traffic/rows", layer=layer).json()["rows"] for layer in ("merged", "speed")],
    )
    batch = answer(address, secret, "/views/page_traffic/rows", layer="batch").json()["rows"]
    merged = answer(address, secret, "/views/site/rows").json()["rows"]
    starts = [row["window_start"] for row in merged]
    assert drawn[1] == [row["hits"] for row in merged]
    assert drawn[2] == [sum(row["hits"] for row in batch if row["window_start"] == start) for start in starts]


def caption(page: Page) -> str:
    return page.locator(".chart figcaption").text_content() or ""


@pytest.mark.slow
def test_an_estimate_has_its_band_and_its_error(open_page: Open) -> None:
    page = settled(open_page("#/views/site?chart=visitors"))
    expect(page.locator(".answered")).to_contain_text("visitors: estimate, ±3.28 % at 95.4 % confidence")
    band = page.evaluate(
        """async () => {
            const { overTime } = await import('/page/lib/picture.js');
            const [start, end] = ['2026-11-01T00:00:00Z', '2026-11-01T01:00:00Z'];
            const rows = [{ window_start: start, window_end: end, window_state: 'open', n: 100 }];
            const estimate = { kind: 'hll', error: 0.05 };
            const measure = { name: 'n', adds: false, kind: 'float' };
            const data = overTime({ rows, whole: true, speed: null, measure, columns: [], estimate });
            return [data.series[0].band, data.from];
        }"""
    )
    assert band == [[[95], [105]], 1793491200]


def test_a_commit_is_shown_at_once(open_page: Open, served: Served, record_property: Callable[[str, object], None]) -> None:
    """A row changes where it stands, and the page's title stays; how long that took is told and not judged."""
    page = settled(open_page("#/views/site"))
    expect(page.locator(".heading .badge")).to_have_text("live")
    before = int(rows(page)[0][2])
    took = []
    for more in range(1, 4):
        served.world.append(0, hit("/", -1))
        served.world.trigger()
        began = time.perf_counter()
        page.wait_for_function(
            f"() => document.querySelector('.rows tbody tr.changed td.number')?.textContent === '{before + more}'", polling=10
        )
        took.append(time.perf_counter() - began)
    record_property("seconds_from_commit_to_page", took)
    expect(page.get_by_role("status").filter(has_text="changed")).to_contain_text("1 row changed.")


def test_a_changed_row_is_marked_however_slow_its_answer_is(open_page: Open, served: Served) -> None:
    page = settled(open_page("#/views/site"))
    expect(page.locator(".heading .badge")).to_have_text("live")
    page.clock.install()
    slow: list[Route] = []
    held = False
    before = int(rows(page)[0][2])
    page.route("**/status", lambda route: route.abort())  # so only the stream reports changes
    page.route("**/views/site/rows?*", lambda route: slow.append(route) if held else route.continue_())
    served.world.append(0, hit("/", -1))
    served.world.trigger()
    changed_row = page.locator(".rows tbody tr.changed td.number").first
    # Then the page has asked for all rows that it wanted because its stream had begun.
    expect(changed_row).to_have_text(str(before + 1))
    held = True
    with page.expect_request("**/views/site/rows?*"):
        served.world.append(0, hit("/", -1))
        served.world.trigger()
    page.clock.fast_forward(10_000)
    held = False
    while slow:
        slow.pop().continue_()
    expect(changed_row).to_have_text(str(before + 2))


@pytest.mark.parametrize("view", ["page_traffic", *(pytest.param(each, marks=pytest.mark.slow) for each in ("totals", "odd"))])
def test_hostile_keys_stay_text(open_page: Open, hostile_address: tuple[str, str], view: str) -> None:
    at, shown = hostile_address
    page = settled(open_page(f"#/views/{view}", at=at, shown=shown))
    page.wait_for_selector(".rows tbody tr")
    found = page.eval_on_selector_all(".rows tbody tr .pick", "links => links.map(link => link.textContent)")
    told = {"": "empty text"}
    keys = {told.get(key, key) for key in (*HOSTILE, LONG)} | {"NULL"}
    assert keys <= set(found)
    assert page.title() == f"{view} \u2013 Tandem"
    inside = "main script, main img, main iframe, main svg:not(.wires), main [onerror], main [onload]"
    assert page.locator(inside).count() == 0
    assert page.locator("main a:not([href^='#/']):not([href^='blob:'])").count() == 0


def test_numbers_keep_all_their_digits(open_page: Open, hostile_address: tuple[str, str]) -> None:
    at, shown = hostile_address
    page = settled(open_page("#/views/odd", at=at, shown=shown))
    grouped = f"{HUGE:,}".replace(",", "\u202f")
    assert {cells[4] for cells in rows(page)} == {grouped}
    parsed = page.evaluate(
        """async () => {
            const { parse } = await import('/page/lib/json.js');
            const found = parse('{"a": [123456789012345678901234567890, -9007199254740993, 1.5e300, 1234567890123456.5, '
                + '0.1234567890123456789, 1.2345678901234567e+21], '
                + '"b\\\\"9007199254740993": "9007199254740993", "c": 9007199254740991, "d": "\\\\u0000x"}');
            return JSON.stringify(found, (_, one) => typeof one === 'bigint' ? `${one}n` : one);
        }"""
    )
    assert json.loads(parsed) == {
        "a": [
            "123456789012345678901234567890n",
            "-9007199254740993n",
            1.5e300,
            1234567890123456.5,
            0.12345678901234568,
            1.2345678901234567e21,
        ],
        'b"9007199254740993': "9007199254740993",
        "c": 9007199254740991,
        "d": "\x00x",
    }


@pytest.mark.slow
def test_the_shown_rows_can_be_saved(open_page: Open, address: str, secret: str, tmp_path: Path) -> None:
    page = settled(open_page("#/views/page_traffic?key.page=%2Fdocs"))
    headers = {"Authorization": f"Bearer {secret}", "Accept": "text/csv"}
    parameters = {"key.page": "/docs", "order": "-window_start", "limit": "10000", "escape_formulas": "true"}
    told = httpx.get(f"{address}/views/page_traffic/rows", params=parameters, headers=headers, timeout=60).content
    files = downloads(page, tmp_path)
    assert files["CSV"].read_bytes() == told
    assert pa.ipc.open_stream(files["Arrow"].read_bytes()).read_all()["page"].to_pylist()[0] == "/docs"


def test_without_a_server_the_page_reports_it_and_recovers(open_page: Open) -> None:
    page = settled(open_page())
    page.context.set_offline(True)
    expect(page.locator(".banner")).to_contain_text("The server does not answer. The page shows the last data.")
    expect(page.locator(".box.batch strong")).not_to_be_empty()
    page.context.set_offline(False)
    page.get_by_role("button", name="Try now").click()
    expect(page.locator(".banner")).to_be_hidden()


@pytest.mark.slow
def test_a_stuck_part_is_red_until_it_makes_progress(open_page: Open, served: Served) -> None:
    state = served.world.state
    heart = Heart(state, "speed")
    banner, connection = ".banner", ".connection"
    try:
        heart.beat(1)
        heart.begins(1, "hits")
        heart.looked(1, "hits")
        page = settled(open_page())
        # Nothing beats any more: the process of this test lives, and its speed layer does not move.
        expect(page.locator(banner)).to_contain_text("The speed layer has been stuck since")
        expect(page.locator(banner)).to_contain_text("its process runs but makes no progress")
        expect(page.locator(connection)).to_have_text("speed stuck")
        expect(page.locator(connection)).to_have_class("connection bad")
        stop = Event()

        def beat() -> None:
            while not stop.wait(0.2):
                heart.beat(1)

        beating = Thread(target=beat)
        beating.start()
        try:
            expect(page.locator(connection)).to_have_text("live")
            expect(page.locator(banner)).to_be_hidden()
        finally:
            stop.set()
            beating.join()
    finally:
        pulse.file(state, "speed").unlink(missing_ok=True)


def test_a_revoked_token_is_requested_again(open_page: Open, served: Served) -> None:
    shown = served.token("soon revoked", may=VERBS)
    page = settled(open_page("#/views/site", shown=shown))
    tokens.revoke(served.world.tables, "soon revoked", now=NOON)
    served.seconds += tokens.FRESH_S
    expect(page.get_by_label("Token")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("the token is unknown, expired or revoked")
    assert page.evaluate("() => sessionStorage.getItem('tandem.token')") is None


@pytest.mark.slow
def test_a_refusal_that_nobody_waits_for_any_more_replaces_no_reason(open_page: Open) -> None:
    """The page has left after the first of several refusals, so the others end while they are read."""
    page = settled(open_page("#/views/site"))
    said = page.evaluate(
        """async () => {
            const { request } = await import('/page/lib/ask.js');
            const ended = () => Promise.reject(new DOMException('left', 'AbortError'));
            window.fetch = () => Promise.resolve({ ok: false, status: 401, statusText: 'Unauthorized', json: ended });
            const error = await request('/views').catch((error) => error);
            return [error.name, sessionStorage.getItem('tandem.token') !== null];
        }"""
    )
    assert said == ["AbortError", True]


def test_a_token_sees_only_what_it_may(open_page: Open, served: Served) -> None:
    shown = served.token("docs only", may=("read",), rows=["page=/docs"])
    page = settled(open_page("#/views/totals", shown=shown))
    assert [cells[0] for cells in rows(page)] == ["/docs"]
    links = page.locator("nav[aria-label=Pages] a:not(.brand)").all_text_contents()
    assert links == ["Pipeline", "Accuracy", "odd", "page_traffic", "totals"]
    page.goto(page.url.partition("#")[0] + "#/releases")
    expect(page.get_by_text("needs another right").first).to_be_visible()
    page.goto(page.url.partition("#")[0] + "#/")
    expect(page.get_by_text("a token that is restricted to rows does not see them").first).to_be_visible()
    expect(page.get_by_text("Positions by partition").first).to_be_hidden()
    expect(page.get_by_role("table", name="Publications, the newest first")).to_contain_text("first")


@pytest.mark.slow
def test_sql_results_are_shown_and_sorted(open_page: Open) -> None:
    page = settled(open_page("#/sql"))
    page.get_by_label("One SELECT").fill(
        "SELECT page, sum(hits) AS n, 2::HUGEINT ** 70 AS big FROM totals GROUP BY ALL ORDER BY page"
    )
    page.keyboard.press("Control+Enter")
    table = page.get_by_role("table", name="Result")
    expect(table).to_contain_text("/signup")
    assert "statement=SELECT" in page.url
    table.get_by_role("button", name="n", exact=True).focus()
    page.keyboard.press("Enter")
    found = [int(cells[1]) for cells in rows(page)]
    assert found == sorted(found)
    page.get_by_label("One SELECT").fill("DROP TABLE totals")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("main [role=alert]")).to_contain_text("SELECT")


@pytest.mark.slow
def test_values_of_every_type_of_sql_are_shown(open_page: Open) -> None:
    """Each value as JSON has it, numbers with all their digits, and what has no shape of its own by its number."""
    types = [type_ for type_ in TEXTS if type_ not in ("VARIANT", "GEOMETRY")]  # not of a cast: a JSON text, and bytes
    most = max(len(TEXTS[type_]) for type_ in types)
    drawn = [[scalar(type_, (TEXTS[type_] + (None,) * most)[at]) for type_ in types] for at in range(most)]
    selects = (f"SELECT {at}, {', '.join(f'{one.sql} AS c{n}' for n, one in enumerate(row))}" for at, row in enumerate(drawn))
    nested = "SELECT {'a b': [1, NULL], 'c': MAP {'x': DATE '2026-11-01'}} AS s, [[true], []] AS l, [] AS e"
    page = settled(open_page("#/sql"))

    def asked(statement: str) -> list[list[str]]:
        page.get_by_label("One SELECT").fill(statement)
        with page.expect_response("**/sql"):
            page.get_by_role("button", name="Run").click()
        settled(page)
        cell = "cell => cell.querySelector(':scope > [title]')?.title ?? cell.textContent"
        found: list[list[str]] = page.eval_on_selector_all(
            ".rows tbody tr", f"rows => rows.map(row => [...row.cells].map({cell}))"
        )
        return found

    shown = asked(" UNION ALL ".join(selects) + " ORDER BY 1")
    assert len(shown) == most
    for cells, row in zip(shown, drawn, strict=True):
        for cell, one in zip(cells[1:], row, strict=True):
            if isinstance(one.value, bool):
                assert cell == str(one.value).lower(), one
            elif isinstance(one.value, int | float):
                assert type(one.value)(cell) == one.value, one
            else:
                text = {None: "NULL", "": "empty text"}.get(one.value, one.value)
                assert re.sub("\u27e8U\\+([0-9A-F]+)\u27e9", lambda mark: chr(int(mark[1], 16)), cell) == text, one
    assert asked(nested) == [["a b 1NULLc x2026-11-01", "trueempty list", "empty list"]]


def test_no_row_of_a_view_of_estimates_is_labelled_exact(open_page: Open, address: str) -> None:
    page = open_page("#/sql")
    page.goto(f"{address}/#/views/totals")
    expect(page.locator(".answered")).to_contain_text("Rows")
    changed(page, "**/views/totals/rows*", lambda found: found["provenance"]["exactness"].update(rows=None))
    page.reload()
    settled(page)
    expect(page.locator(".answered")).to_contain_text("Publication")
    expect(page.locator(".answered")).not_to_contain_text("Rows")


@pytest.mark.slow
def test_accuracy_is_shown_over_time(open_page: Open, served: Served) -> None:
    history = [audit for audit in Audits(served.world.tables).history() if audit.view == "page_traffic"]
    page = settled(open_page("#/accuracy"))
    page.get_by_role("combobox", name="view").select_option("page_traffic")
    expect(page.get_by_text("not comparable: bridge")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(len(history))
    assert f"of {len({audit.at for audit in history if audit.figures})} runs" in caption(page)
    page.get_by_role("button", name="sMAPE").click()
    page.get_by_role("button", name="sMAPE").click()
    worst = max(audit.figures.differ for audit in history if audit.figures)
    assert worst in [int(text) for text in page.locator("tbody td:nth-child(5)").all_text_contents()[:3]]


def changed(page: Page, path: str, change: Callable[[dict[str, Any]], object]) -> None:
    """What the server says at a path comes to the page otherwise."""

    def route(asked: Route) -> None:
        # Not over a kept connection, which the server may be about to end; a browser would send the request again.
        document = asked.fetch(headers={**asked.request.headers, "connection": "close"}).json()
        change(document)
        asked.fulfill(json=document)

    page.route(path, route)


def test_conditions_are_shown_with_what_does_not_meet_them(open_page: Open, address: str, served: Served) -> None:
    base = Audits(served.world.tables).history()[-1]
    worst = {"row": {"page": "/b"}, "values": {"share": 0.75}, "far": 0.25}
    of = [ConditionResult("share < 0.5", "stop", 180, 2, (worst,)), ConditionResult("rows > 3", "warn", None, 0)]

    def add(document: dict[str, Any]) -> None:
        conditions = [replace(base, measure="", figures=None, obstacle=None, expectation=each) for each in of]
        removed = ConditionResult("share < 0.1", "stop", 180, 9, (worst,))
        conditions.append(replace(conditions[0], version=base.version - 1, expectation=removed))
        document["audits"] = [*map(document_of, conditions), *document["audits"]]

    page = open_page("#/sql")
    changed(page, "**/audits?*", add)
    page.goto(f"{address}/#/accuracy")
    settled(page)
    expect(page.locator("dl")).to_contain_text("1 condition")
    first, second = (page.locator("tbody tr").nth(number) for number in (0, 1))
    expect(first.locator("td, th").last).to_have_text("stop share < 0.5")
    expect(second.locator("td, th").last).to_have_text("met rows > 3")
    assert first.locator("td").nth(2).text_content() == "180"
    expect(page.get_by_text("empty text")).to_have_count(0)


@pytest.mark.slow
def test_each_source_has_its_own_views_counted(open_page: Open, address: str) -> None:
    def twice(status: dict[str, Any]) -> None:
        status["sources"] |= {"orders": status["sources"]["hits"]}
        status["views"] |= {"per_shop": status["views"]["site"] | {"source": "orders"}}

    page = open_page("#/sql")
    changed(page, "**/status", twice)
    page.goto(f"{address}/#/")
    settled(page)
    expect(page.locator(".box.answers strong")).to_have_text(["4 views", "1 view"])


@pytest.mark.slow
def test_a_view_without_compared_rows_has_no_figures(open_page: Open, address: str) -> None:
    none = {"status": "added", "matched": None, "changed": None, "only_old": None, "only_new": None}
    page = open_page("#/sql")
    changed(page, "**/history*", lambda found: found["publications"][0].update(diff={"fresh": none}))
    page.goto(f"{address}/#/")
    expect(page.get_by_role("table", name="Publications")).to_contain_text("fresh added")
    assert "null" not in (page.get_by_role("table", name="Publications").text_content() or "")


@pytest.mark.slow
def test_one_run_is_drawn_around_its_moment(open_page: Open, address: str) -> None:
    """And is called one run."""
    page = open_page("#/sql")

    def last(found: dict[str, Any]) -> None:
        found["audits"] = [audit for audit in found["audits"] if audit["figures"]][:1]
        found["audits"][0]["figures"]["rows"] = 1

    changed(page, "**/audits*", last)
    page.goto(f"{address}/#/accuracy")
    settled(page)
    expect(page.locator(".facts").first).to_contain_text("1 answer in 1 run")
    assert caption(page).startswith("sMAPE in per cent of 1 run, at most ")
    drawn = page.evaluate(
        """async () => {
            const { stretch } = await import('/page/parts/chart.js');
            const data = [
                { xs: [1000], ends: [1000] }, { xs: [0, 60], ends: [60, 120] }, { xs: [1000], ends: [4600] },
                { xs: [], ends: [] },
            ];
            return data.map(stretch);
        }"""
    )
    assert drawn == [[-800, 2800], [0, 120], [1000, 4600], [0, 1]]


def test_rows_that_may_have_a_late_duplicate_are_marked(open_page: Open, tmp_path: Path) -> None:
    known = DEFINITIONS.replace('event_time="moment"', 'event_time="moment", identity=("user", "bytes")')
    world = World(tmp_path, definitions=known)
    world.append(0, *(hit(page, minute, size=n) for n, (page, minute) in enumerate([("/a", -120), ("/b", -120), ("/a", -60)])))
    world.trigger()
    world.recompute(position(3))
    world.append(0, hit("/a", -58, size=9))
    world.trigger()
    made = Served(world, {"poll_ms": 20})
    with serving(made) as at:
        page = settled(open_page("#/views/page_traffic", at=at, shown=made.token("visitor", may=VERBS)))
        told = page.locator(".answered")
        expect(told.locator(".badge")).to_have_text("exact unless a late duplicate")
        expect(told).to_contain_text("Exact unless a duplicate arrived later than 10 min after the first copy.")
        assert [(cells[0], "late duplicate" in cells[2]) for cells in rows(page)] == [("/a", True), ("/a", False), ("/b", False)]
        page.goto(f"{at}/#/views/page_traffic?key.page=%2Fb")
        expect(told.locator(".badge")).to_have_text("exact")
        page.goto(f"{at}/#/sql?statement=SELECT%201")
        page.get_by_role("button", name="Run").click()
        expect(page.locator(".rows .badge")).to_have_text("exact")


def test_quarantine_shows_reasons_and_retries(open_page: Open) -> None:
    page = settled(open_page("#/quarantine"))
    expect(page.get_by_role("table")).to_contain_text("{broken <b>⟨U+001B⟩[31m\\xff")
    page.get_by_role("button", name="missing_field 1").click()
    expect(page.get_by_role("table")).not_to_contain_text("broken")
    assert "reason=missing_field" in page.url
    page.get_by_role("button", name="Decode the newest again").click()
    expect(page.get_by_text("0 of 1 record would be read")).to_be_visible()


def test_a_plan_is_run_and_shown(open_page: Open, served: Served) -> None:
    file = served.world.folder / "definitions.py"
    before = file.read_text()
    file.write_text(before.replace('"slowest": maximum("ms")', '"slowest": minimum("ms")'))
    try:
        page = settled(open_page("#/releases"))
        page.get_by_role("button", name="Plan").click()
        table = page.get_by_role("table", name="What the project's definitions change")
        expect(table.get_by_role("row", name="view page_traffic")).to_contain_text("breaking")
        expect(table.get_by_role("row", name="view totals")).to_contain_text("unchanged")
    finally:
        file.write_text(before)


def test_a_release_is_promoted_rolled_back_and_retired(open_page: Open, tmp_path: Path) -> None:
    world = one_ready(tmp_path)
    world.writer = Writer.claim(world.tables, 2, SOURCE, by="test", at=NOON)
    world.trigger(position(30))
    served = Served(world, {"poll_ms": 20})
    with serving(served) as address:
        page = settled(open_page("#/releases", at=address, shown=served.token("desk", may=VERBS)))
        publications = page.get_by_role("table", name="Publications, the newest first")
        page.get_by_label("why").fill("fewer bots <b>")
        page.get_by_role("button", name="Promote release 2").click()
        newest = publications.get_by_role("row").nth(1)
        expect(newest).to_contain_text("3 live")
        expect(newest).to_contain_text("promote (token:desk)")
        expect(newest).to_contain_text("fewer bots <b>")
        # What is published is live before the process that published it has ended, and the next one waits for nobody.
        run = page.locator(".runs details").first
        expect(run).to_contain_text("promote done")
        page.get_by_label("why").fill("")
        page.get_by_role("button", name="Roll back to publication 2").click()
        expect(newest).to_contain_text("4 live")
        expect(run).to_contain_text("rollback done")
        page.get_by_role("button", name="Retire release 2").click()
        expect(run).to_contain_text("retired")
        told = [(one.kind, one.by, one.why) for one in Publications(world.tables).history()[2:]]
        assert told == [("promote", "promote (token:desk)", "fewer bots <b>"), ("rollback", "rollback (token:desk)", "")]
        page.get_by_label("gate of promote").fill("nonsense")
        page.get_by_role("button", name="Promote", exact=True).click()
        expect(page.locator("main [role=alert], .runs .problem").first).to_contain_text("nonsense")


def test_a_project_without_events_has_its_pages(open_page: Open, tmp_path: Path) -> None:
    served = Served(World(tmp_path), {"poll_ms": 20})
    with serving(served) as address:
        page = settled(open_page(at=address, shown=served.token("desk", may=VERBS)))
        expect(page.locator(".summary")).to_contain_text("Publication 1")
        for path in ("views/per_page", "accuracy", "releases", "quarantine", "sql"):
            page.goto(f"{address}/#/{path}")
            settled(page)
            assert page.locator("main [role=alert]").count() == 0, path


def test_the_keyboard_is_enough(open_page: Open) -> None:
    page = settled(open_page("#/views/page_traffic"))
    page.wait_for_selector(".rows tbody tr")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_label("batch part")).to_be_checked()
    assert "layer=batch" in page.url
    page.get_by_role("link", name="SQL").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="SQL")).to_be_focused()


def test_pictures_are_created_on_request(open_page: Open, request: pytest.FixtureRequest) -> None:
    folder = request.config.getoption("screenshots")
    if folder is None:
        pytest.skip("pictures are made with --screenshots DIR")
    for name, path, scheme in PICTURES:
        page = open_page(path, color_scheme=scheme, reduced_motion="reduce", viewport={"width": 1180, "height": 940})
        settled(page).wait_for_selector("main table tbody tr td")
        # What is at the pointer or in focus is no part of the picture.
        page.evaluate("() => document.activeElement.blur()")
        page.screenshot(path=Path(folder, f"{name}.png"))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(browser: Browser, open_page: Open, address: str, scheme: str) -> None:
    page = settled(open_page(color_scheme=scheme, reduced_motion="reduce"))
    found = {}
    for path in PAGES:
        page.goto(f"{address}/{path}")
        settled(page).wait_for_selector("main table, main textarea")
        violations = Axe().run(page).response["violations"]
        found[path] = [(one["id"], one["nodes"][0]["html"]) for one in violations if one["impact"] in ("serious", "critical")]
    assert not {path: faults for path, faults in found.items() if faults}
