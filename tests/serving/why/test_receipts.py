"""A receipt is computed again, whatever was counted, published and archived since; what is gone is named."""

import json
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.infra.folders import tandem_version
from tandem.ledger.log.erasures import Erasures
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import ReadFailed
from tandem.serving.read.outcome import given as answer_of
from tandem.serving.read.selection import ALWAYS, parse_keys, parse_window, select
from tandem.serving.why.moments import Moments
from tandem.serving.why.receipt import InvalidReceipt, Receipt, receipt_of
from tandem.serving.why.refold import check
from tandem.views.source.offset_ranges import Ranges
from tests.samples import share
from tests.serving.why.shop import EIGHT, Shop, sale
from tests.serving.why.test_the_events_behind_a_row import eventful, sales
from tests.serving.world import position

VIEWS = ("hourly", "slides", "daily", "visits", "fours", "ever", "each")


def receipt(shop: Shop, view: str, *keys: str, window: str | None = None, publication: int | None = None) -> Receipt:
    reader = Reader(shop.tables, publication)
    of = reader.view(view)
    layer = "merged" if publication is None else "batch"
    between, chosen = ALWAYS if window is None else parse_window(of, window), parse_keys(of, keys)
    answer = answer_of(reader.answer(view, keys=chosen, between=between, layer=layer))  # type: ignore[arg-type]
    return receipt_of(shop.tables, answer, select(of, chosen, between))


@share(10, quick=3)
@given(st.lists(sales, min_size=2, max_size=16), st.lists(sales, max_size=6), st.data())
def test_a_receipt_gives_the_same_bytes_whatever_came_since(log: list[bytes], more: list[bytes], data: st.DataObject) -> None:
    cut, archived = sorted(data.draw(st.lists(st.integers(0, len(log)), min_size=2, max_size=2)))
    with TemporaryDirectory() as folder:
        shop, before = Shop(Path(folder)), 0
        for number, to in enumerate((cut, archived, len(log))):
            shop.append(0, *log[before:to])
            if to > before:
                shop.trigger()
            if number == 0 and cut:
                shop.recompute(position(cut))
            if number == 1 and archived:
                shop.file_in_archive()
            before = to
        given_out = [receipt(shop, view) for view in VIEWS] + [receipt(shop, "hourly", "city=OSLO", window="2026-11-01T08:00Z")]
        if more:
            shop.append(0, *more)
            shop.trigger()
            shop.recompute(position(len(log) + len(more)))
        for each in given_out:
            stored = Receipt.parse(each.line(), "r.json")
            checked = check(shop.tables, shop.tail, stored)
            assert checked.problems == (), each.view
            assert checked.again.line() == each.line()


def test_a_receipt_says_what_was_asked_and_by_which_code(tmp_path: Path) -> None:
    document: dict[str, Any] = json.loads(receipt(eventful(tmp_path), "hourly", "city=OSLO", window="2026-11-01T08:00Z").line())
    assert document["asked"] == {
        "keys": {"city": "OSLO"},
        "from": "2026-11-01T08:00:00Z",
        "to": "2026-11-01T08:00:00.000001Z",
        "one": False,
        "at": None,
    }
    assert document["positions"] == {"sales": {"cut": {"T": {"0": 8}}, "position": {"T": {"0": 13}}}}
    assert (document["rows"], document["release"], document["publication"]) == (1, 1, 2)
    assert document["digested"] == ["orders", "revenue", "best", "mean", "big", "last"], "a sketch estimates"
    assert document["versions"]["tandem"] == tandem_version()
    assert all(document["versions"].values())


def test_a_number_that_was_changed_is_noticed(tmp_path: Path) -> None:
    shop = eventful(tmp_path)
    shop.log[0][1] = sale("b", 7, price="3.50", pieces=3)
    shop.recompute(position(8))
    (problem,) = check(shop.tables, shop.tail, receipt(shop, "hourly")).problems
    assert problem.startswith("the digest of the rows is sha256:")


@pytest.mark.parametrize("view", ["hourly", "slides", "daily", "visits"])
def test_a_range_may_end_with_the_calendar(tmp_path: Path, view: str) -> None:
    shop = eventful(tmp_path)
    reader = Reader(shop.tables)
    of, between = reader.view(view), (EIGHT, datetime(9999, 12, 31, 23, 30, tzinfo=UTC))
    made = receipt_of(shop.tables, answer_of(reader.answer(view, between=between)), select(of, {}, between))
    assert check(shop.tables, shop.tail, made).again == made


def test_a_receipt_of_a_past_publication_is_of_its_cut(tmp_path: Path) -> None:
    shop = eventful(tmp_path)
    past = receipt(shop, "hourly", publication=2)
    assert past.layer == "batch"
    assert past.end("sales") == position(8)
    assert check(shop.tables, shop.tail, past).problems == ()


def test_what_is_gone_is_named(tmp_path: Path) -> None:
    shop = eventful(tmp_path)
    made, other_city = receipt(shop, "hourly"), receipt(shop, "hourly", "city=BERGEN")
    Erasures(shop.tables).intend("sales", Ranges.of({("T", 0): (9, 10)}), by="test", at=EIGHT, stage="erased")
    shop.log[0][9] = b"{gone"
    erased = "1 record of source 'sales' below the receipt's position erased since"
    problems = check(shop.tables, shop.tail, made).problems
    assert problems[0] == erased
    assert problems[1].startswith("the digest of the rows is ")
    checked = check(shop.tables, shop.tail, other_city)
    assert (checked.problems, checked.notes, checked.again) == ((), (erased,), other_city), "the record was of another city"
    document = json.loads(made.line())
    with pytest.raises(ReadFailed, match="the code of the receipt is gone: release 9 is not stored"):
        check(shop.tables, shop.tail, Receipt.parse(json.dumps({**document, "release": 9}).encode(), "r.json"))
    other = {**document, "fingerprint": "abc", "versions": {**document["versions"], "duckdb": "1.0"}}
    with pytest.raises(ReadFailed, match=r"is computed differently now \(duckdb was 1.0, and is "):
        check(shop.tables, shop.tail, Receipt.parse(json.dumps(other).encode(), "r.json"))


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"receipt": 1}', b"\xff"])
def test_what_is_not_a_receipt_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidReceipt, match=r"r\.json is not a receipt"):
        Receipt.parse(content, "r.json")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("asked", {}),
        ("asked", {"keys": 3, "from": None, "to": None, "one": False, "at": None}),
        ("asked", {"keys": {}, "from": 7, "to": None, "one": False, "at": None}),
        ("positions", {"sales": {}}),
        ("positions", {"sales": {"cut": 3, "position": 4}}),
        ("positions", {"sales": {"cut": {"T": {"first": 1}}, "position": {}}}),
        ("positions", {"sales": {"cut": {}, "position": {"T": {"0": "x"}}}}),
        ("positions", {"sales": {"cut": {}, "position": {"T": {"0": -1}}}}),
        ("erased", {"returns": 1}),
    ],
)
def test_a_receipt_whose_fields_were_damaged_is_refused(tmp_path: Path, field: str, value: object) -> None:
    document = {**json.loads(receipt(eventful(tmp_path), "hourly").line()), field: value}
    with pytest.raises(InvalidReceipt, match=r"r\.json is not a receipt"):
        Receipt.parse(json.dumps(document).encode(), "r.json")


def test_a_receipt_without_the_positions_of_its_view_is_refused(tmp_path: Path) -> None:
    shop = eventful(tmp_path)
    document = {**json.loads(receipt(shop, "hourly").line()), "positions": {}, "erased": {}}
    without = json.dumps(document)
    with pytest.raises(InvalidReceipt, match="the receipt has no positions of source 'sales'"):
        check(shop.tables, shop.tail, Receipt.parse(without.encode(), "r.json"))
    with pytest.raises(InvalidReceipt, match="the receipt has no positions of source 'sales'"):
        Moments(shop.tables, "hourly").find(without)
