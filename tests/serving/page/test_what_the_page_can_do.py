"""What a person can do on the page in a real browser: compare measures, ask where a number comes from, send an event."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

from tandem.serving.access.rights import VERBS
from tests.serving.http.served import Served, serving
from tests.serving.page.test_the_page_in_a_browser import answer, changed, rows, settled
from tests.serving.world import World, hit

Open = Callable[..., Page]
PHONE = {"width": 390, "height": 844}


def panels(page: Page) -> list[list[str]]:
    """The names of the lines in each chart."""
    found: list[list[str]] = page.eval_on_selector_all(
        ".picture .chart",
        "charts => charts.map(chart => [...chart.querySelectorAll('.legend li')].map(one => one.textContent.trim()))",
    )
    return [[name for name in names if name not in ("", "open windows")] for names in found]


def test_several_measures_are_in_one_chart_if_they_share_an_axis(open_page: Open) -> None:
    page = settled(open_page("#/views/page_traffic"))
    chart = page.get_by_role("group", name="chart")
    expect(page.locator(".chart figcaption")).to_contain_text("hits")
    for name in ("visitors", "slowest", "bytes"):
        chart.get_by_role("checkbox", name=name).check()
        expect(page.locator(".chart figcaption").filter(has_text=name)).to_be_visible()
    together = [["hits", "visitors", "slowest"], ["realtime part", "batch part"]]
    assert panels(page) == together
    page.reload()
    settled(page)
    expect(page.locator(".picture .chart")).to_have_count(2)
    assert panels(page) == together
    # One pointer is over both, and the legends show its window.
    page.locator(".plot").first.hover()
    expect(page.locator(".when").last).to_contain_text("2026-11-01")
    for name in ("hits", "visitors", "slowest"):
        chart.get_by_role("checkbox", name=name).uncheck()
    expect(page.locator(".picture .chart")).to_have_count(1)
    assert panels(page) == together[1:]


@pytest.mark.parametrize("how", ["keyboard", pytest.param("phone", marks=pytest.mark.slow)])
def test_a_number_tells_where_it_comes_from(open_page: Open, address: str, secret: str, how: str) -> None:
    told = answer(address, secret, "/views/totals/rows").json()
    batch = {row["page"]: row["hits"] for row in answer(address, secret, "/views/totals/rows", layer="batch").json()["rows"]}
    more = {"viewport": PHONE, "has_touch": True} if how == "phone" else {}
    page = settled(open_page("#/views/totals", **more))
    row = next(one for one in told["rows"] if one["page"] == rows(page)[1][0])
    number = page.locator(".rows .scroll > table > tbody > tr").nth(1).locator(".number-origin").first
    dialog = page.get_by_role("dialog")
    if how == "phone":
        number.tap()
    else:
        page.locator(".number-origin").first.focus()
        page.keyboard.press("ArrowDown")
        expect(number).to_be_focused()
        page.keyboard.press("Enter")
    expect(dialog.get_by_role("heading", level=2)).to_have_text(f"hits = {row['hits']}")
    expect(dialog.get_by_text("batch part", exact=True).locator("xpath=../dd")).to_have_text(str(batch[row["page"]]))
    expect(dialog.get_by_text("realtime part", exact=True).locator("xpath=../dd")).to_have_text(
        str(row["hits"] - batch[row["page"]])
    )
    expect(dialog).to_contain_text("Every event up to these positions is counted once.")
    provenance = told["provenance"]
    places = dialog.locator("tbody tr").evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.textContent))")
    for topic, partition, below, end in places:
        assert [int(below.replace("\u202f", "")), int(end.replace("\u202f", ""))] == [
            provenance[name][topic][partition] for name in ("cut", "realtime")
        ]
    assert len(places) == 2
    expect(dialog).to_contain_text(provenance["fingerprint"][:12])
    violations = [one["id"] for one in Axe().run(page).response["violations"]]
    assert not violations
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(number).to_be_focused()
    number.press("Enter")
    dialog.get_by_role("link", name="This row alone").click()
    expect(page.get_by_role("table", name=re.compile("totals: rows"))).to_contain_text("rows 1 to 1 of 1")


def drawn_again(page: Page, zone: str) -> None:
    """Another zone is chosen without moving the focus."""
    page.evaluate("() => document.querySelectorAll('.number-origin').forEach(one => one.dataset.drawn = 'before')")
    page.locator("label", has_text="zone").locator("select").evaluate(
        "(select, zone) => { select.value = zone; select.dispatchEvent(new Event('change', { bubbles: true })); }", zone
    )
    page.wait_for_function("() => document.querySelector('.number-origin') && !document.querySelector('[data-drawn]')")
    settled(page)


@pytest.mark.slow
def test_a_number_keeps_the_focus_when_its_table_is_drawn_again(open_page: Open) -> None:
    page = settled(open_page("#/views/page_traffic"))
    page.wait_for_selector(".number-origin")
    at = page.evaluate(
        """() => {
            const numbers = [...document.querySelectorAll('.number-origin')];
            const texts = numbers.map((one) => one.textContent);
            const at = texts.findIndex((text, n) => texts.indexOf(text) < n);
            numbers[0].focus();
            numbers[at].focus();
            return at;
        }"""
    )
    drawn_again(page, "local")
    drawn_again(page, "utc")
    focused = "() => [...document.querySelectorAll('.number-origin')].indexOf(document.activeElement)"
    assert page.evaluate(focused) == at
    # Tab leads back to it, too, if the table was drawn again while the focus was elsewhere.
    page.keyboard.press("Shift+Tab")
    drawn_again(page, "local")
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == at
    drawn_again(page, "utc")
    # It returns there from the dialog, too, if the table was drawn again meanwhile.
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    drawn_again(page, "local")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.wait_for_function(
        "at => [...document.querySelectorAll('.number-origin')].indexOf(document.activeElement) === at", arg=at
    )


def test_an_estimate_tells_its_error(open_page: Open) -> None:
    page = settled(open_page("#/views/site"))
    page.locator(".rows tbody tr").first.locator(".number-origin").nth(1).click()
    expect(page.get_by_role("dialog")).to_contain_text("estimate, \u00b13.28 % at 95.4 % confidence.")


def test_an_event_is_sent_as_it_is_written(open_page: Open) -> None:
    """The log's answer stands in for a broker; that events reach a real one is tests/serving/http/routes' part."""
    page = settled(open_page("#/send"))
    sent: list[tuple[str | None, str]] = []

    def taken(asked: Route) -> None:
        sent.append((asked.request.post_data, asked.request.headers["content-type"]))
        place = {"topic_id": "T", "partition": 1, "offset": 446}
        asked.fulfill(json={"source": "hits", "topic": "hits", "records": [place], "min_position": None})

    text = page.get_by_label("One record")
    expect(text).to_have_value(re.compile('"page": ""'))
    event = hit("/docs", 1).decode()
    text.fill(event[:-1])
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert")).to_contain_text("record 0")
    page.route("**/sources/hits/events?*", taken)
    text.fill(event)
    text.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Written to topic")).to_contain_text("T/1:446")
    assert sent == [(event, "application/octet-stream")]
    expect(page.locator(".sql").get_by_role("link", name="page_traffic")).to_be_visible()


@pytest.mark.slow
def test_inputs_and_the_record_are_kept_in_step(open_page: Open, address: str, secret: str) -> None:
    page = open_page("#/send", viewport=PHONE)
    optional = {"name": "note", "key": "note", "kind": "text", "required": False, "null": True, "unit": None, "doc": "by hand"}
    changed(page, "**/sources", lambda found: found["sources"][0]["fields"].append(optional))
    page.reload()
    settled(page)
    text, ms, size = page.get_by_label("One record"), page.get_by_label("ms", exact=True), page.get_by_label("bytes", exact=True)
    expect(ms).to_have_accessible_description("float in ms, required")
    expect(page.get_by_label("page", exact=True)).to_have_accessible_description("text, required, empty is null")
    expect(page.get_by_label("note", exact=True)).to_have_accessible_description("text, left out if empty, by hand")
    # Only what is typed changes: other members keep their digits, their order and what the event type does not name.
    text.fill('{"price": "1.50", "more": [1.0, {"a": "}"}], "bytes": 9007199254740993, "page": "a\\"b", "user": null}')
    expect(size).to_have_value("9007199254740993")
    expect(page.get_by_label("page", exact=True)).to_have_value('a"b')
    expect(ms).to_have_value("")
    size.focus()
    page.keyboard.press("End")
    page.keyboard.type("1")
    page.get_by_label("note", exact=True).fill("x")
    page.get_by_label("page", exact=True).fill("")
    assert text.input_value() == (
        '{\n  "price": "1.50",\n  "more": [1.0, {"a": "}"}],\n  "bytes": 90071992547409931,\n  "page": null,\n'
        '  "user": null,\n  "note": "x"\n}'
    )
    page.get_by_label("note", exact=True).fill("")
    size.fill("many")
    assert json.loads(text.input_value())["bytes"] == "many"
    assert "note" not in json.loads(text.input_value())
    violations = [one["id"] for one in Axe().run(page).response["violations"]]
    assert not violations
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    text.fill("[{}]")
    expect(page.get_by_text("The record is not one JSON object")).to_be_visible()
    expect(size).to_be_disabled()
    text.fill("{}")
    expect(size).to_be_enabled()


def test_only_who_may_send_gets_the_form(open_page: Open, served: Served) -> None:
    page = settled(open_page("#/send", shown=served.token("reader", may=("read",))))
    expect(page.get_by_text("may not send events to any source")).to_be_visible()
    expect(page.get_by_role("link", name="Send an event")).to_have_count(0)


@pytest.mark.parametrize(
    "size", [pytest.param({"width": 1280, "height": 860}, marks=pytest.mark.slow), PHONE], ids=["wide", "phone"]
)
def test_lineage_and_health_are_shown(open_page: Open, address: str, secret: str, size: dict[str, int]) -> None:
    status = answer(address, secret, "/status").json()
    page = settled(open_page(viewport=size))
    lineage = page.get_by_role("group", name="Lineage of source hits")
    expect(lineage.locator("li")).to_have_text(
        ["hits", "hits", *status["views"], f"release {status['release']}, publication {status['publication']}"]
    )
    parts = page.get_by_role("table", name="Parts of the installation").locator("tbody tr")
    expect(parts).to_have_count(len(status["parts"]))
    for part, row in zip(status["parts"], parts.all(), strict=True):
        expect(row).to_contain_text(part["part"])
        expect(row).to_contain_text(part["state"].replace("_", " "))
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    lineage.get_by_role("link", name="site").press("Enter")
    expect(page.get_by_role("heading", name="site")).to_be_visible()


@pytest.mark.slow
def test_throughput_is_what_positions_gained(open_page: Open) -> None:
    page = settled(open_page())
    expect(page.get_by_role("img", name="Offsets a second of hits")).to_be_visible()
    at = [f"2026-11-01T{hour:02}:00:00Z" for hour in (6, 7, 8, 9, 10)]
    cuts = [0, 3600, 3600, 1800, 10800]  # the third is a promotion, the fourth a rollback
    made = [{"at": one, "cuts": {"hits": {"T": {"0": cut}}}} for one, cut in zip(at, cuts, strict=True)]
    drawn = page.evaluate(
        """async (made) => {
            const { rates } = await import('/page/parts/throughput.js');
            const now = Date.parse('2026-11-01T10:30:00Z') / 1000;
            const state = { realtime: { T: { 0: 12600 } } };
            const found = rates('hits', made.reverse(), state, now);
            const spans = found.xs.map((x, at) => (found.ends[at] - x) / 3600);
            return [spans, found.series.map((one) => one.ys), rates('hits', made.slice(0, 1), state, now - 1800)];
        }""",
        made,
    )
    assert drawn == [[1, 3, 0.5], [[1, 0.667, None], [None, None, 1]], None]


@pytest.mark.slow
def test_freshness_is_the_servers_samples(open_page: Open, served: Served) -> None:
    at = [f"2026-11-01T12:{minute:02}:00Z" for minute in range(4)]
    samples = {"at": at, "lag": [0, 1200, None, 3], "age_s": [0.4, 75.0, None, 2.0]}
    page = open_page()
    changed(page, "**/freshness", lambda found: found["sources"].update(hits=samples))
    page.reload()
    settled(page)
    age = page.get_by_role("img", name="Age of the answers of hits")
    expect(age).to_have_accessible_name(re.compile(r"at most 75 s old in the 4 min since 2026-11-01 12:00 UTC"))
    waiting = page.get_by_role("img", name="Offsets of hits that wait")
    expect(waiting).to_have_accessible_name(re.compile(r"At most 1\s200 offsets waited"))
    drawn = page.evaluate(
        """async () => {
            const { lines } = await import('/page/parts/freshness.js');
            const at = ['12:00', '12:01', '12:05'].map((time) => `2026-11-01T${time}:00Z`);
            const { age, lag } = lines({ at, lag: [4, null, 0], age_s: [1.5, null, 0] });
            const minutes = age.xs.map((x) => (x - age.xs[0]) / 60);
            return [minutes, age.series[0].ys, lag.series[0].ys, lines({ at: [], lag: [], age_s: [] })];
        }"""
    )
    assert drawn == [[0, 1, 2, 5], [1.5, None, None, 0], [4, None, None, 0], None]
    bound = settled(open_page(shown=served.token("rows of one page", rows=["page=/docs"])))
    expect(bound.get_by_text("restricted to rows does not see them")).to_be_visible()
    expect(bound.get_by_role("heading", name="Freshness")).to_be_hidden()


@pytest.mark.slow
def test_alerts_are_shown_with_what_is_not_acknowledged(open_page: Open, served: Served) -> None:
    of = {"id": "1", "of": "1", "alert": "busy", "view": "per_page", "because": "events", "since": "2026-11-01T12:00:00Z"}
    edge = {**of, "kind": "raised", "text": "/docs <b>", "at": "2026-11-01T12:01:00Z", "place": {"page": "/docs"}}
    ended = {**edge, "id": "2", "kind": "corrected", "because": "recompute", "text": "/a", "place": {"page": "/a"}}
    stands = {"alert": "busy", "raised": [edge], "unsent": {"webhook": 2}, "faults": {"webhook": "it answered 500"}}
    page = open_page()
    changed(page, "**/alerts", lambda found: found.update(alerts=[stands], recent=[ended, edge]))
    page.reload()
    settled(page)
    listed = page.get_by_role("table", name=re.compile("Rows for which alerts are raised"))
    expect(listed.get_by_role("row")).to_have_count(3)
    expect(listed).to_contain_text("/docs <b>")
    expect(listed.get_by_text("corrected")).to_be_visible()
    expect(page.get_by_text("Alert busy: webhook has not acknowledged 2 edges: it answered 500")).to_be_visible()
    bound = settled(open_page(shown=served.token("rows for alerts", rows=["page=/docs"])))
    expect(bound.get_by_role("heading", name="Alerts")).to_be_hidden()


@pytest.mark.slow
def test_a_server_that_dies_and_returns_is_shown_again(open_page: Open, tmp_path: Path) -> None:
    """With what it counts then, and without a reload."""
    world = World(tmp_path)
    world.append(0, *(hit("/a", n) for n in range(1, 4)))
    world.trigger()
    made = Served(world, {"poll_ms": 20})
    secret = made.token("visitor", may=VERBS)
    with serving(made) as at:
        page = settled(open_page("#/views/ever", at=at, shown=secret))
        assert rows(page)[0][1] == "3"
    expect(page.locator(".banner")).to_contain_text("The server does not answer. The page shows the last data.")
    assert rows(page)[0][1] == "3"
    world.append(0, hit("/a", 4))
    world.trigger()
    again = Served(world, {"poll_ms": 20})
    with serving(again, port=int(at.rpartition(":")[2])):
        page.get_by_role("button", name="Try now").click()
        expect(page.locator(".banner")).to_be_hidden()
        expect(page.locator(".rows tbody td.number").first).to_have_text("4")


@pytest.mark.slow
def test_a_saved_link_holds_all_choices(open_page: Open) -> None:
    """The address alone, in another tab, shows what was chosen."""
    page = settled(open_page("#/views/page_traffic"))
    page.get_by_label("range").select_option("6h")
    page.get_by_label("zone").select_option("local")
    page.get_by_role("group", name="chart").get_by_role("checkbox", name="visitors").check()
    page.get_by_role("group", name="measures").get_by_role("checkbox", name="bytes").uncheck()
    page.get_by_role("button", name="hits").first.click()
    page.get_by_label("batch part").check()
    expect(page.get_by_role("table")).to_contain_text("layer batch alone")
    other = settled(open_page("#" + page.url.partition("#")[2]))
    expect(other.get_by_role("table")).to_contain_text("layer batch alone")
    assert [rows(page), panels(page)] == [rows(other), panels(other)]
    chosen = "() => [...document.querySelectorAll('.body select, .body input')].map((one) => [one.value, one.checked])"
    assert page.evaluate(chosen) == other.evaluate(chosen)
    assert json.dumps(page.evaluate(chosen)) != json.dumps(settled(open_page("#/views/page_traffic")).evaluate(chosen))
