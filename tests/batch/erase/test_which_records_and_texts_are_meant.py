"""A line of `--ids` has one meaning, or is refused; a text is searched only if finding none proves something."""

import json
from collections.abc import Callable

import pyarrow as pa
import pytest

from tandem.batch.archive import write_archive
from tandem.batch.erase import find_records
from tandem.batch.erase.find_records import NotForgotten, RecordSelection
from tandem.batch.erase.prove import prove
from tandem.batch.erase.searched_texts import SearchedTexts, texts_of
from tandem.batch.recompute import recompute
from tandem.cli.__main__ import main
from tandem.views.source.source import Source
from tests.batch.erase.test_erased_records_are_gone import filled, without
from tests.batch.shop import Log, Shop, assert_true, together

FIELDS = pa.schema(
    [("name", pa.string()), ("n", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("home", pa.struct([("city", pa.string())]))]
)


def of_lines(*lines: str) -> Callable[[Source], RecordSelection]:
    return lambda source: find_records.of_ids(source, lines)


def sell(shop: Shop, *ids: str) -> Log:
    """A shop that also sold these, at the end of partition 0."""
    log = filled(shop, 900, 40)
    sales = [json.dumps({"id": each, "at": "2026-03-01T00:00:01Z", "shop": "s", "cents": 1}).encode() for each in ids]
    shop.sell({0: sales, 1: []})
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    return together(log, {0: sales, 1: []})


def test_an_identity_with_the_form_of_a_position_is_an_identity(shop: Shop) -> None:
    log = sell(shop, "order/1:25", "order/2:25")
    (done,) = shop.forget(of_lines("order/1:25"))
    assert done.erasure.ranges.length == 1
    assert_true(shop, done.publication, without(log, lambda sale: sale["id"] == "order/1:25"))
    searched = of_lines("order/1:25", f"{shop.topic.id}/0:1")(shop.project().sources["sales"]).search_texts({shop.topic.id})
    assert searched.searched == ("order/1:25",), "no file has a position as a text"
    assert prove(shop.tables, done.erasure, searched.searched).whole


def test_a_line_with_two_meanings_or_none_is_refused(shop: Shop) -> None:
    """Before anything is changed. Once the events are erased, the line is a position."""
    place = f"{shop.topic.id}/0:3"
    sell(shop, place)
    batch = shop.run("forget")
    with pytest.raises(
        NotForgotten, match=r"1 line of the file can be the position .* erase the events first, with --where \"id ="
    ):
        shop.forget(of_lines(place, f"{shop.topic.id}/0:4"), batch)
    with pytest.raises(NotForgotten, match="names 2 positions that the archive of source 'sales' does not cover"):
        shop.forget(of_lines("order/1:25", f"{shop.topic.id}/0:90000", f"{shop.topic.id}/0:4"), batch)
    (done,) = shop.forget(lambda source: find_records.where(source, f"id = '{place}'"), batch)
    (again,) = shop.forget(of_lines(place))
    assert (done.erasure.ranges.length, again.erasure.ranges.to_json()) == (1, {shop.topic.id: {"0": [[3, 4]]}})


@pytest.mark.parametrize(
    ("condition", "searched", "unsearched"),
    [
        ("name = 'ann' AND n > 3 OR 'bob' = home.city", ("ann", "bob"), ()),
        ("NAME IN ('ann', 'bob', '')", ("ann", "bob"), ()),
        ("name LIKE '%@example.o_g%'", ("@example.o",), ()),
        ("name LIKE '%@example.org' AND name <> 'ann'", ("@example.org",), ("ann",)),
        ("name LIKE '%_'", (), ("%_",)),
        ("name ILIKE 'ann%' OR lower(name) = 'bob'", (), ("ann%", "bob")),
        ("NOT (name = 'ann')", (), ("ann",)),
        ("ts = '2026-03-01'", (), ("2026-03-01",)),
    ],
)
def test_a_text_is_searched_if_each_selected_record_has_it(
    condition: str, searched: tuple[str, ...], unsearched: tuple[str, ...]
) -> None:
    assert texts_of(condition, FIELDS) == SearchedTexts(searched, unsearched)


def test_a_proof_searches_for_the_fixed_part_of_a_pattern(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """It finds what is left of other records, and says which text it does not search for; it never erases."""
    sell(shop, "ann@example.org", "bob@example.org")
    shop.forget(lambda source: find_records.where(source, "id = 'ann@example.org'"))
    proof = ["forget", "sales", "--project", str(shop.folder), "--prove", "sales-erasure-1", "--where"]
    assert main([*proof, "id LIKE '%@example.org'"]) == 3
    assert main([*proof, "id LIKE 'ann@example.o_g' AND id <> 'other'"]) == 0
    shown = capsys.readouterr().out
    assert "1 text in" in shown
    assert "not searched, because selected records need not have this text: 'other'" in shown
    assert main([*proof, "id = 'ann@example.org'", "--yes"]) == 1
    assert "--prove erases nothing: it cannot be combined with --yes" in capsys.readouterr().err
