"""The parts of a row's difference add up to it exactly, and each is what a log gone through in plain Python says."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.infra.settings import load
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.publish.publications import Publications
from tandem.serving.read.selection import ALWAYS, BadSelection, Selection, parse_keys, parse_window, select
from tandem.serving.why.changed import RowChanges, WhyChanged
from tandem.serving.why.document import changes_to_json
from tandem.serving.why.moments import Moments
from tandem.serving.why.topic_tail import TopicTail
from tandem.views.project.project import load_files
from tandem.views.source.offset_ranges import Ranges
from tandem.views.view import View
from tests.samples import share
from tests.serving.two_releases import applied, build, promote
from tests.serving.why.shop import DEFINITIONS, EIGHT, Shop, sale
from tests.serving.why.test_receipts import receipt
from tests.serving.why.test_the_events_behind_a_row import eventful, hourly_groups, plainly, sales
from tests.serving.why.test_the_page_on_why import TOGETHER, stack
from tests.serving.world import position

CAUSES = ("new events", "late events")


def between(shop: Shop, view: str, first: str, second: str, *keys: str, window: str | None = None) -> WhyChanged:
    def select_rows(of: View) -> Selection:
        return select(of, parse_keys(of, keys), ALWAYS if window is None else parse_window(of, window))

    moments = Moments(shop.tables, view, select_rows)
    before, after = moments.find(first), moments.find(second)
    chosen = select_rows(after.view)
    return RowChanges(shop.tables, shop.tail).between(before, after, chosen)


def by_row(changed: WhyChanged) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {
        tuple([*row.group.values()][:2]): {each.measure: each for each in row.differences} | {"late": row.late}
        for row in changed.rows
    }


@share(10, quick=3)
@given(st.lists(sales, min_size=2, max_size=20), st.data())
def test_parts_add_up_to_the_difference_exactly(log: list[bytes], data: st.DataObject) -> None:
    first, second, end = sorted(data.draw(st.lists(st.integers(1, len(log)), min_size=3, max_size=3)))
    with TemporaryDirectory() as folder:
        shop = Shop(Path(folder))
        before = 0
        for to in (first, second, end):
            shop.append(0, *log[before:to])
            if to > before:
                shop.trigger()
            if to != end or to == second:
                shop.recompute(position(to))
            before = to
        since = data.draw(st.sampled_from((0, first)), label="the position of the earlier moment")
        groups = [hourly_groups(plainly(log[:to])[0]) for to in (since, end)]
        events, _ = plainly(log[:end])
        rows = by_row(between(shop, "hourly", "2" if since else "1", "now"))
        assert rows.keys() == {group for group in groups[1] if groups[0][group] != groups[1][group]}
        for group, row in rows.items():
            came = [offset for offset in groups[1][group] if offset >= since]
            late = [offset for offset in came if any(cut <= offset and final(log[:cut], group) for cut in (first, second))]
            assert row["late"] == len(late)
            offsets = dict(zip(CAUSES, ([offset for offset in came if offset not in late], late), strict=True))
            worth = {cause: sum(Decimal(events[offset]["price"]) for offset in some) for cause, some in offsets.items() if some}
            assert row["revenue"].parts == worth
            assert row["orders"].parts == {cause: len(some) for cause, some in offsets.items() if some}
            for each in (row["orders"], row["revenue"]):
                assert sum(each.parts.values()) == (each.after or 0) - (each.before or 0)
                assert not any(isinstance(share, float) for share in each.parts.values())
            assert all(row[name].parts is None for name in ("best", "mean", "kinds", "last") if name in row)


def final(log: list[bytes], group: tuple[str | None, datetime]) -> bool:
    """Whether the newest event of a log is ten minutes past the end of an hour."""
    times = [datetime.fromisoformat(event["at"]) for event in plainly(log)[0].values()]
    return bool(times) and max(times) >= group[1] + timedelta(hours=1, minutes=10)


def test_new_and_late_events_are_told_apart(tmp_path: Path) -> None:
    """Publication 2 had labelled the window final, whichever moment is the earlier one."""
    shop = eventful(tmp_path)
    late = {"late events": Decimal("5.00")}
    moments = {
        "2": late,
        "1": {"new events": Decimal("4.00"), **late},
        json.dumps({"T": {"0": 2}}): {"new events": Decimal("0.50"), **late},
        json.dumps({"T": {"0": 10}}): {"late events": Decimal("1.00")},
    }
    for moment, parts in moments.items():
        row = by_row(between(shop, "hourly", moment, "now", "city=OSLO"))["OSLO", EIGHT]
        assert row["revenue"].parts == parts
        assert row["late"] == row["orders"].parts["late events"]


def test_a_receipt_is_a_moment(tmp_path: Path) -> None:
    shop = eventful(tmp_path)
    (tmp_path / "r.json").write_bytes(receipt(shop, "hourly").line())
    shop.append(0, sale("more", 50, price="7.00"))
    shop.trigger()
    changed = by_row(between(shop, "hourly", str(tmp_path / "r.json"), "now"))
    assert {group: row["revenue"].parts for group, row in changed.items()} == {("OSLO", EIGHT): {"late events": Decimal("7.00")}}


def test_a_number_that_was_wrong_is_a_part_of_its_own(tmp_path: Path) -> None:
    """The batch version of publication 3 counts what the log does not have: the next one repairs it."""
    shop = eventful(tmp_path)
    right = shop.log[0][1]
    shop.log[0][1] = sale("b", 7, price="3.50", pieces=3)
    shop.recompute(position(8))
    shop.log[0][1] = right
    shop.recompute(position(13))
    row = by_row(between(shop, "hourly", "3", "4", "city=OSLO"))["OSLO", EIGHT]
    assert (row["revenue"].before, row["revenue"].after) == (Decimal("5.00"), Decimal("9.00"))
    assert row["revenue"].parts == {"late events": Decimal("5.00"), "duplicates": Decimal("-1.00")}
    Erasures(shop.tables).intend("sales", Ranges.of({("T", 0): (7, 8)}), by="test", at=EIGHT, stage="erased")
    changed = between(shop, "hourly", "3", "4", "city=OSLO")
    row = by_row(changed)["OSLO", EIGHT]
    assert row["revenue"].parts == {"late events": Decimal("5.00"), "erasure": Decimal("-1.00")}
    assert changed.erased == 0, "publication 3 is retained, so the part is known"


def test_what_erased_records_had_made_is_said_to_be_unknown(tmp_path: Path) -> None:
    """An erasure deletes earlier publications, and a receipt has no rows."""
    shop = eventful(tmp_path)
    (tmp_path / "r.json").write_bytes(receipt(shop, "hourly").line())
    shop.log[0][9] = b"{erased"
    Erasures(shop.tables).intend("sales", Ranges.of({("T", 0): (9, 10)}), by="test", at=EIGHT, stage="erased")
    shop.recompute(position(13))
    assert between(shop, "hourly", str(tmp_path / "r.json"), "3").erased == 1
    assert between(shop, "hourly", "2", "3").erased == 0, "the record came later"


def test_events_without_which_a_publication_was_built_are_a_part(tmp_path: Path) -> None:
    """The log has lost an offset that publication 2 counts; publication 3 accepts the gap."""
    shop = Shop(tmp_path)
    shop.append(0, sale("a", 5), sale("b", 7, price="2.50"))
    shop.trigger()
    shop.recompute(position(2))
    shop.log[0][1] = b"{lost"
    gap = Gaps(shop.tables).record("sales", Ranges.of({("T", 0): (1, 2)}), reason="one offset", at=EIGHT)
    shop.append(0, sale("c", 8, price="4.00"))
    shop.trigger()
    recomputed = shop.recomputed(position(3))
    Publications(shop.tables).publish(lambda live: replace(recomputed(live), gaps=(gap.name,)))
    row = by_row(between(shop, "hourly", "2", "3"))["OSLO", EIGHT]
    assert row["revenue"].parts == {"new events": Decimal("4.00"), "accepted gaps": Decimal("-2.50")}
    assert (row["orders"].before, row["orders"].after, row["orders"].parts) == (2, 2, {"new events": 1, "accepted gaps": -1})


def priced(since: int, value: int) -> bytes:
    return json.dumps({"sku": "tea", "since": f"2026-11-01T08:{since:02}:00Z", "price": value}).encode()


def ordered(id_: str, at: int, items: int) -> bytes:
    return json.dumps({"id": id_, "at": f"2026-11-01T08:{at:02}:00Z", "sku": "tea", "items": items}).encode()


def sold(folder: Path, first: int, second: int | str) -> dict[str, Any]:
    """The differences of the one row of `sold` between two moments, by measure; none if it is the same."""
    settings = load(folder, {})
    tables = Tables.of(settings)
    moments = Moments(tables, "sold")
    rows = RowChanges(tables, TopicTail(settings, tables)).between(moments.find(str(first)), moments.find(str(second))).rows
    return {each.measure: (each.before, each.after, each.parts) for row in rows for each in row.differences}


def test_other_versions_of_a_table_are_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = stack(tmp_path, monkeypatch, TOGETHER, "prices", "orders", "refunds", "notes")
    shop.append("prices", priced(0, 2))
    shop.append("orders", ordered("1", 10, 2), ordered("2", 20, 10))
    shop.recompute()
    shop.append("prices", priced(15, 5))
    shop.append("orders", ordered("3", 30, 1))
    shop.recompute()
    tables = Tables.of(load(tmp_path, {}))
    first, *_, last = sorted(each.number for each in Publications(tables).history() if each.kind == "recompute")
    assert sold(tmp_path, first, last) == {
        "worth": (24, 59, {"tables": 30, "new events": 5}),
        "n": (2, 3, {"new events": 1}),
    }


def test_a_table_in_which_the_next_recompute_looks_up_again_is_no_duplicate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers hold what batch and micro-batches found in the table; a price that comes later changes them with the recompute."""
    shop = stack(tmp_path, monkeypatch, TOGETHER, "prices", "orders", "refunds", "notes")
    shop.append("prices", priced(0, 2))
    shop.append("orders", ordered("1", 20, 10))
    shop.recompute()
    cut = Publications(Tables.of(load(tmp_path, {}))).history()[-1].number
    shop.append("prices", priced(15, 5))
    assert sold(tmp_path, cut, "now") == {}
    shop.append("orders", ordered("2", 40, 1))
    assert sold(tmp_path, cut, "now") == {"worth": (20, 25, {"new events": 5}), "n": (1, 2, {"new events": 1})}
    shop.append("prices", priced(35, 7))
    assert sold(tmp_path, cut, "now")["worth"] == (20, 25, {"new events": 7, "tables": -2})
    shop.recompute()
    assert sold(tmp_path, cut, "now")["worth"] == (20, 57, {"new events": 7, "tables": 30})


def test_what_a_later_definition_does_not_read_is_a_part_of_the_definition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later position names neither the table nor the second source."""
    shop = stack(tmp_path, monkeypatch, TOGETHER, "prices", "orders", "refunds", "notes")
    shop.append("prices", b'{"sku": "tea", "since": "2026-11-01T08:00:00Z", "price": 3}')
    shop.append("orders", b'{"id": "1", "at": "2026-11-01T08:10:00Z", "sku": "tea", "items": 2}')
    shop.append("refunds", b'{"at": "2026-11-01T08:20:00Z", "sku": "tea", "items": 1}')
    shop.recompute()
    settings = load(tmp_path, {})
    tables = Tables.of(settings)
    without = TOGETHER.replace('lookup={"p": price_of.as_of(sku="sku")}, ', "").replace('"items * p.price"', '"items"')
    without = without.replace("source=(orders, refunds)", "source=orders").replace(", of=orders", "")
    without = without.replace('"back": total("items", of=refunds), "rate": derived("back / ordered"),', "")
    project = load_files({"definitions.py": without.encode()})
    for view, parts in {"sold": {"worth": {"definition": -4}}, "net": {"events": {"definition": -1}}}.items():
        before = Moments(tables, view).find("now")
        ends = {"orders": before.ends["orders"]}
        after = replace(before, view=project.every_view[view], project=project, cuts=ends, ends=ends, rows=None)
        (row,) = RowChanges(tables, TopicTail(settings, tables)).between(before, after).rows
        assert {each.measure: each.parts for each in row.differences} == parts


def test_a_definition_is_a_part_with_its_words(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.append(0, sale("a", 5), sale("b", 7, price="2.50"))
    shop.trigger()
    shop.recompute(position(2))
    shop.append(0, sale("c", 8, price="-1.00"))
    shop.trigger()
    ready = applied(shop, DEFINITIONS.replace('where="price > 0"', 'where="price > 1"'))
    ready.trigger(position(3))
    build(ready, position(3))
    promote(ready)
    changed = between(shop, "hourly", "2", "now", "city=OSLO")
    row = by_row(changed)["OSLO", EIGHT]
    assert row["orders"].parts == {"definition": -1}
    assert row["revenue"].parts == {"definition": Decimal("-1.00")}
    assert any("price > 0" in words for words in changed.definition)


def test_a_window_is_explained_by_all_its_events(tmp_path: Path) -> None:
    """A session lasts longer than its gap, and a window may have had another size: the asked start says only where it begins."""
    shop = Shop(tmp_path)
    shop.append(0, *(sale(id_, minutes) for id_, minutes in zip("abcd", (5, 25, 45, 65), strict=True)))
    shop.trigger()
    shop.recompute(position(4))
    shop.append(0, sale("e", 85))
    shop.trigger()
    start = "2026-11-01T08:05Z"
    rows = between(shop, "visits", "2", "now", window=start).rows
    assert rows == between(shop, "visits", "2", "now").rows
    assert [(each.before, each.after, each.parts) for row in rows for each in row.differences if each.measure == "orders"] == [
        (None, 5, {"new events": 5}),
        (4, None, {"new events": -4}),
    ]
    release_of(shop, DEFINITIONS.replace("window=tumbling(hours=1), where", "window=tumbling(minutes=30), where"), 5)
    rows = between(shop, "hourly", "2", "now", window="2026-11-01T08:00Z").rows
    orders = [(each.before, each.after, each.parts) for row in rows for each in row.differences if each.measure == "orders"]
    assert orders == [(None, 2, {"definition": 2}), (3, None, {"definition": -3})]


def release_of(shop: Shop, definitions: str, end: int) -> None:
    """A release of other definitions, live with a cut there."""
    ready = applied(shop, definitions)
    ready.trigger(position(end))
    build(ready, position(end))
    promote(ready)


OTHER_TYPES = {
    'total("price")': ("2.00", "3.00"),
    'total("CAST(pieces AS DOUBLE)")': (2.0, 3.0),
    'maximum("id")': ("b", "c"),
    "maximum('\"at\"')": ("2026-11-01T08:07:00Z", "2026-11-01T08:08:00Z"),
}


@pytest.mark.parametrize("measure", OTHER_TYPES)
@pytest.mark.parametrize("back", [False, True])
def test_a_measure_of_another_type_is_shown_as_it_was(tmp_path: Path, measure: str, *, back: bool) -> None:
    """Its values do not subtract, and each is written as its own definition says."""
    definitions = [DEFINITIONS, DEFINITIONS.replace('measures = {"orders": count()', f'measures = {{"orders": {measure}')]
    values: list[tuple[object, object]] = [(2, 3), OTHER_TYPES[measure]]
    before, after = (1, 0) if back else (0, 1)
    shop = Shop(tmp_path, definitions=definitions[before])
    shop.append(0, sale("a", 5), sale("b", 7))
    shop.trigger()
    shop.recompute(position(2))
    shop.append(0, sale("c", 8))
    shop.trigger()
    release_of(shop, definitions[after], 3)
    (changed,) = changes_to_json(between(shop, "hourly", "2", "now"))["rows"]
    json.dumps(changed)
    orders = {each["measure"]: each for each in changed["measures"]}["orders"]
    assert (orders["before"], orders["after"]) == (values[before][0], values[after][1])


def test_keys_of_another_kind_are_no_pair_of_moments(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.append(0, sale("a", 5))
    shop.trigger()
    shop.recompute(position(1))
    shop.append(0, sale("b", 6))
    release_of(shop, DEFINITIONS.replace('keys={"city": "upper(city)"}', 'keys={"city": "length(city)"}'), 2)
    with pytest.raises(BadSelection, match="view 'hourly' had other keys or another kind of window at publication 2"):
        between(shop, "hourly", "2", "now")


def test_no_digit_of_a_large_total_is_lost(tmp_path: Path) -> None:
    """A total has up to 38 digits."""
    huge = '"revenue": total("CAST(pieces AS HUGEINT) * 1000000000000000000000 + 1")'
    shop = Shop(tmp_path, definitions=DEFINITIONS.replace('"revenue": total("price")', huge))
    shop.append(0, sale("a", 5, pieces=123_456_789))
    shop.trigger()
    shop.recompute(position(1))
    shop.append(0, sale("b", 8, pieces=987_654_321))
    shop.trigger()
    (row,) = changes_to_json(between(shop, "hourly", "2", "now"))["rows"]
    revenue = {each["measure"]: each for each in row["measures"]}["revenue"]
    first, new = 123_456_789 * 10**21 + 1, 987_654_321 * 10**21 + 1
    assert revenue == {"measure": "revenue", "before": first, "after": first + new, "parts": {"new events": new}}


def test_what_is_no_pair_of_moments_is_refused(tmp_path: Path) -> None:
    shop = eventful(tmp_path)
    with pytest.raises(BadSelection, match="now counts more of source 'sales' than publication 2: name the earlier one first"):
        between(shop, "hourly", "now", "2")
    with pytest.raises(BadSelection, match="'yesterday' is not a moment"):
        between(shop, "hourly", "yesterday", "now")
    with pytest.raises(BadSelection, match="is not a moment: "):
        between(shop, "hourly", "0" * 5000, "now")
    with pytest.raises(BadSelection, match="publication 9 does not exist"):
        between(shop, "hourly", "9", "now")
    with pytest.raises(BadSelection, match="no source of view 'hourly' has the topic 'Q'; topics: T"):
        between(shop, "hourly", '{"Q": {"0": 1}}', "now")
