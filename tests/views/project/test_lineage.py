"""Every column of a view's answers is made of the fields that its expressions read, and of no others."""

from datetime import datetime

import pyarrow as pa
import pytest

from tandem.infra.folders import ROOT
from tandem.views.measures import approx_quantiles, count, derived, first, total
from tandem.views.project.column_lineage import ColumnOrigin, lineage
from tandem.views.project.project import load
from tandem.views.source.event import Event
from tandem.views.source.source import Source
from tandem.views.view import View, answer_schema
from tandem.views.windows import session, sliding_count_window, tumbling


class Sale(Event):
    at: datetime
    shop: str
    cents: int
    refund: bool


def plain(events: pa.Table) -> pa.Table:
    return events


SALES = Source(topic="sales", event=Sale, event_time="at", name="sales")


def view(source: Source = SALES, **changes) -> View:
    parts = {
        "keys": {"shop": "shop", "area": "left(shop, 2)"},
        "window": tumbling(hours=1),
        "where": "cents > 0",
        "measures": {
            "n": count(),
            "back": total("cents", filter="refund"),
            "opened": first("cents", filter="refund"),
            "spread": approx_quantiles("cents * 2", (0.5,)),
            "share": derived("back / n"),
        },
    }
    return View(source=source, name="turnover", **{**parts, **changes})


def origins(of: View) -> dict[str, list[tuple[str, str]]]:
    return {column.name: [(one.field, one.how) for one in column.origins] for column in lineage(of).columns}


def test_keys_windows_and_measures_are_made_of_what_they_read() -> None:
    made = origins(view())
    back = [("cents", "aggregation"), ("refund", "condition")]
    assert made["shop"] == [("shop", "identity")]
    assert made["area"] == [("shop", "transformation")]
    assert made["window_start"] == made["window_state"] == [("at", "transformation")]
    assert made["n"] == []
    assert made["back"] == made["share"] == back
    assert {field for field, _ in made["opened"]} >= {"at", "cents", "refund", "_offset"}
    assert ("refund", "condition") in made["opened"]
    assert made["spread"] == [("cents", "aggregation")]


def test_what_chooses_and_groups_is_of_the_whole_view() -> None:
    found = lineage(view())
    assert (found.filtered_by, found.grouped_by) == (("cents",), ("at", "shop"))


def test_a_window_in_order_is_made_of_positions_and_a_session_of_time() -> None:
    positions = ["_offset", "_partition", "_topic_id"]
    assert [field for field, _ in origins(view(window=sliding_count_window(10)))["window_start"]] == positions
    assert origins(view(window=session(minutes=2)))["window_end"] == [("at", "transformation")]


def test_behind_prepare_any_field_may_have_decided() -> None:
    source = Source(topic="sales", event=Sale, event_time="at", name="sales", prepare=plain)
    whole = tuple(ColumnOrigin(field, "transformation") for field in ("at", "shop", "cents", "refund"))
    assert {column.origins for column in lineage(view(source)).columns} == {(), whole}


@pytest.mark.parametrize("example", ["web", "access_log", "cards", "clicks", "sensors", "orders", "words"])
def test_every_column_of_every_example_is_told(example: str) -> None:
    for each in load(ROOT / "examples" / example).views.values():
        assert [(one.name, one.type) for one in lineage(each).columns] == [(f.name, str(f.type)) for f in answer_schema(each)]
