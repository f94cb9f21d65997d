"""`why` lists every event that counts and no duplicate as counted, and computes the row again: an oracle goes through the log."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.publish.publications import Publications
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import ReadFailed
from tandem.serving.read.selection import ALWAYS, BadSelection, parse_keys, parse_window
from tandem.serving.why.document import events_table, place_text, to_json
from tandem.serving.why.part_log import WorkBounds
from tandem.serving.why.row_groups import TooManyEvents
from tandem.serving.why.why import Why, WhyReader
from tests.samples import share
from tests.serving.why.shop import DEFINITIONS, EIGHT, Shop, sale
from tests.serving.world import position


def ask(reader: WhyReader, view: str, window: str | None = None, /, **keys: str) -> Why:
    of = reader.reader.view(view)
    texts = [f"{name}={value}" for name, value in keys.items()]
    return reader.why(view, parse_keys(of, texts), ALWAYS if window is None else parse_window(of, window))


def document(why: Why) -> dict[str, Any]:
    whole = to_json(why, now=EIGHT, listed=1_000_000)
    json.dumps(whole)
    (source,) = whole["sources"].values()
    return {**whole, **{name: value for name, value in source.items() if name != "events"}}


def places(why: Why) -> list[str]:
    return [place_text(row.place) for row in why.events_of(why.sources[0][0])]


def plainly(log: list[bytes]) -> tuple[dict[int, dict[str, Any]], dict[int, int]]:
    """The events that count, by offset, and the offset of the copy that counts for each dropped one."""
    events: dict[int, dict[str, Any]] = {}
    dropped, firsts = {}, dict[tuple[str, str], int]()
    for offset, value in enumerate(log):
        try:
            event = json.loads(value)
        except ValueError:
            continue
        first = firsts.setdefault((event["id"], event["at"]), offset)
        if first == offset:
            events[offset] = event
        else:
            dropped[offset] = first
    return events, dropped


def hourly_groups(events: dict[int, dict[str, Any]]) -> dict[tuple[str | None, datetime], list[int]]:
    """By key and window of the view `hourly` the offsets of its events."""
    groups = defaultdict[tuple[str | None, datetime], list[int]](list)
    for offset, event in events.items():
        if Decimal(event["price"]) > 0:
            at = datetime.fromisoformat(event["at"])
            city = event["city"] and event["city"].upper()
            groups[city, at.replace(minute=0, second=0)].append(offset)
    return groups


def hour_of(value: bytes) -> tuple[str | None, datetime]:
    """The key and window of one event, whatever its price."""
    (group,) = hourly_groups({0: {**json.loads(value), "price": "1"}})
    return group


sales = st.one_of(
    st.builds(
        sale,
        st.sampled_from("abc"),
        st.sampled_from([-30, 5, 59, 60, 200]),
        st.sampled_from(["OSLO", "Oslo", "BERGEN", None]),
        st.sampled_from(["1.10", "2.25", "-1.00"]),
        st.integers(1, 4),
    ),
    st.just(b'{"id": "x", "city": "OSLO"'),
)


@share(20, quick=3)
@given(st.lists(sales, min_size=4, max_size=24), st.data())
def test_every_event_that_counts_is_listed_and_no_copy_of_it(log: list[bytes], data: st.DataObject) -> None:
    cut, archived, end = sorted(data.draw(st.lists(st.integers(0, len(log)), min_size=3, max_size=3)))
    with TemporaryDirectory() as folder:
        shop = Shop(Path(folder))
        before = 0
        for number, to in enumerate((cut, archived, end)):
            shop.append(0, *log[before:to])
            if to > before:
                shop.trigger()
            if number == 0 and cut:
                shop.recompute(position(cut))
            if number == 1 and archived:
                shop.file_in_archive()
            before = to
        reader = shop.why()
        events, dropped = plainly(log[:end])
        groups = hourly_groups(events)
        asked = {*groups, ("OSLO", EIGHT)}
        for city, start in asked:
            keys = {"city": city} if city is not None else {}
            of = reader.reader.view("hourly")
            why = reader.why("hourly", parse_keys(of, ["city"] if city is None else [f"city={city}"]), (start, start + HOUR))
            offsets = sorted(groups[city, start], key=lambda offset: (datetime.fromisoformat(events[offset]["at"]), offset))
            shown = document(why)
            assert keys == ({} if city is None else {"city": city})
            assert places(why) == [f"T/0:{offset}" for offset in offsets]
            assert [each["layer"] for each in shown["listed"]] == ["batch" if offset < cut else "speed" for offset in offsets]
            assert why.agrees
            assert (shown["row"] or {"orders": 0})["orders"] == len(offsets)
            revenue = sum((Decimal(events[offset]["price"]) for offset in offsets), Decimal(0))
            again = {check["measure"]: check["again"] for check in shown["measures"]}
            assert Decimal(again["revenue"] or 0) == revenue
            copies = {each["at"]: each["counts"] for each in shown["duplicates"]["first"]}
            assert copies.keys().isdisjoint(places(why))
            of_row = {first for at, first in dropped.items() if (city, start) in {hour_of(log[at]), hour_of(log[first])}}
            assert copies == {f"T/0:{at}": f"T/0:{first}" for at, first in dropped.items() if first in of_row}


HOUR = timedelta(hours=1)


def eventful(folder: Path) -> Shop:
    """A batch below 8; then two micro-batches that only the topic has."""
    shop = Shop(folder)
    shop.append(
        0,
        sale("a", 5),
        sale("b", 7, price="2.50", pieces=3),
        sale("a", 5),
        b'{"id":"x","city":"OSLO"',
        sale("c", 8, "Oslo", "0.50"),
        sale("d", 9, "OSLO", "-1.00"),
        sale("e", 70),
        sale("z", 8, "BERGEN"),
    )
    shop.trigger()
    shop.recompute(position(8))
    shop.file_in_archive()
    shop.append(0, sale("b", 7, price="2.50", pieces=3), sale("f", 30, price="4.00"), b"[oslo", sale("g", 200, "BERGEN"))
    shop.trigger()
    shop.append(0, sale("late", 40))
    shop.trigger()
    return shop


def test_a_row_is_shown_with_all_that_nearly_counted(tmp_path: Path) -> None:
    shop = eventful(tmp_path)
    shown = document(ask(shop.why(), "hourly", "2026-11-01T08:00Z", city="OSLO"))

    assert shown["agrees"]
    assert shown["window"] == {"start": "2026-11-01T08:00:00Z", "end": "2026-11-01T09:00:00Z", "state": "final"}
    assert {layer: (side["events"], side["row"]["revenue"]) for layer, side in shown["layers"].items()} == {
        "batch": (3, "4.00"),
        "speed": (2, "5.00"),
    }
    assert shown["duplicates"] == {
        "number": 2,
        "first": [
            {"at": "T/0:2", "time": "2026-11-01T08:05:00Z", "counts": "T/0:0"},
            {"at": "T/0:8", "time": "2026-11-01T08:07:00Z", "counts": "T/0:1"},
        ],
    }
    assert shown["filtered"] == {"number": 1, "first": ["T/0:5"]}
    near = shown["near_misses"]
    assert [each["at"] for each in near["first"]] == ["T/0:3", "T/0:10"]
    assert [each["at"] for each in shown["listed"] if each["after_final"]] == ["T/0:9", "T/0:12"]
    assert shown["final_since"]["publication"] == 2, "whose watermark is 9:10"
    assert shown["final_since"]["positions"] == {"sales": {"T": {"0": 8}}}
    assert shown["read"]["topic_records"] == 5
    assert 0 < shown["read"]["bytes"] < shown["read"]["of_bytes"]
    first = shown["listed"][0]
    assert first["reads"]["revenue"] == ["1.00"]
    assert first["fields"] == {"id": "a", "city": "OSLO", "price": "1.00", "pieces": 1}


@pytest.mark.parametrize(
    ("view", "window", "keys", "offsets"),
    [
        ("daily", "2026-11-01", {"city": "OSLO"}, [0, 1, 4, 9, 12, 6]),
        ("slides", "2026-11-01T07:00Z", {"city": "OSLO"}, [0, 1, 5, 9, 12]),
        ("visits", "2026-11-01T08:05Z", {"city": "OSLO"}, [0, 1, 5, 9, 12]),
        ("fours", "2026-11-01T08:05Z", {"city": "OSLO"}, [0, 1, 5, 6]),
        ("ever", None, {}, [0, 1, 4, 7, 5, 9, 12, 6, 11]),
    ],
)
def test_every_kind_of_window_has_its_events(
    tmp_path: Path, view: str, window: str | None, keys: dict[str, str], offsets: list[int]
) -> None:
    why = ask(eventful(tmp_path).why(), view, window, **keys)
    if view == "visits":  # the events from 8:40 on are a session of their own
        offsets = [0, 1, 5, 9, 12]
    assert sorted(places(why)) == sorted(f"T/0:{offset}" for offset in offsets)
    assert why.agrees
    assert Counter(check.verdict for check in why.checks).keys() <= {"equal", "within its error"}


def test_an_event_whose_key_fails_is_named_with_the_reason(tmp_path: Path) -> None:
    why = ask(eventful(tmp_path).why(), "each", None, per_piece="0")
    assert [(place_text(each.at), each.reason) for each in why.sources[0][0].rejected] == [("T/0:1", "expression")]


def test_events_whose_key_is_null_concern_no_other_row(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.append(0, sale("a", 5), sale("n", 6, None), sale("n", 6, None), sale("m", 7, None, "-1.00"))
    shop.trigger()
    reader = shop.why(most=WorkBounds(1))
    shown = document(ask(reader, "hourly", "2026-11-01T08:00Z", city="OSLO"))
    assert [shown[name]["number"] for name in ("duplicates", "rejected", "filtered")] == [0, 0, 0]
    shown = document(shop.why().why("hourly", parse_keys(reader.reader.view("hourly"), ["city"]), (EIGHT, EIGHT + HOUR)))
    assert [shown[name]["number"] for name in ("duplicates", "rejected", "filtered")] == [1, 0, 1]


@pytest.mark.parametrize("city", ["ålesund", "Ålesund", "ÅLESUND", 'the "old" town', "a\\b"])
def test_records_in_quarantine_mention_a_key_in_any_notation(tmp_path: Path, city: str) -> None:
    shop = Shop(tmp_path)
    whole = [sale("x", 5, city), json.dumps({"id": "x", "city": city}, ensure_ascii=False).encode()]
    shop.append(0, *(value[:-1] for value in whole), f"{city}\xff;5".encode("latin-1"), sale("y", 6, "Alesund")[:-1])
    shop.trigger()
    shown = document(ask(shop.why(), "hourly", "2026-11-01T08:00Z", city=city.upper()))
    plain = [2] if city.isascii() else []  # elsewhere the bytes are not UTF-8
    assert [each["at"] for each in shown["near_misses"]["first"]] == [f"T/0:{offset}" for offset in (0, 1, *plain)]


def test_a_session_has_no_copies_of_the_session_before(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.append(0, sale("a", 5), sale("a", 5), sale("b", 35), sale("b", 35), sale("c", 36, price="1.50"))
    shop.trigger()
    shown = document(ask(shop.why(), "visits", "2026-11-01T08:35Z", city="OSLO"))
    assert [each["at"] for each in shown["listed"]] == ["T/0:2", "T/0:4"]
    assert [each["at"] for each in shown["duplicates"]["first"]] == ["T/0:3"]


def test_an_event_whose_key_is_not_finite_is_named_with_the_reason(tmp_path: Path) -> None:
    divided = DEFINITIONS.replace('"pieces // (pieces - 3)"', '"CAST(pieces AS DOUBLE) / (pieces - 3)"')
    shop = Shop(tmp_path, definitions=divided)
    shop.append(0, sale("a", 5, pieces=3), sale("b", 6, pieces=6), sale("c", 7, pieces=1))
    shop.trigger()
    shown = document(ask(shop.why(), "each", None, per_piece="2"))
    assert [each["at"] for each in shown["listed"]] == ["T/0:1"]
    assert shown["rejected"]["first"] == [{"at": "T/0:0", "time": "2026-11-01T08:05:00Z", "reason": "not_finite"}]


def test_a_row_that_was_not_counted_says_what_nearly_was(tmp_path: Path) -> None:
    shown = document(ask(eventful(tmp_path).why(), "hourly", "2026-11-01T07:00Z", city="OSLO"))
    assert (shown["row"], shown["listed"], shown["agrees"]) == (None, [], True)
    assert shown["near_misses"]["number"] == 2
    assert shown["read"]["bytes"] == 0, "no row group can have events of this hour"


def test_a_row_that_is_not_what_its_events_make_is_found(tmp_path: Path) -> None:
    shop = eventful(tmp_path)
    live = Publications(shop.tables).latest()
    assert live is not None
    shop.log[0][1] = sale("b", 7, price="3.50", pieces=3)  # what the next version folds is not what was archived
    shop.recompute(position(8))
    why = ask(shop.why(), "hourly", "2026-11-01T08:00Z", city="OSLO")
    assert not why.agrees
    wrong = {check.measure: (check.answer, check.again) for check in why.checks if check.verdict == "differs"}
    assert wrong["revenue"] == ("10.00", "9.00")
    assert "orders" not in wrong


def test_a_past_publication_is_explained_without_what_came_later(tmp_path: Path) -> None:
    shop = eventful(tmp_path)
    reader = WhyReader(Reader(shop.tables, 2), shop.tail)
    why = ask(reader, "hourly", "2026-11-01T08:00Z", city="OSLO")
    assert places(why) == ["T/0:0", "T/0:1", "T/0:4"]
    assert why.agrees
    assert why.sources[0][0].topic_records == 0


def test_all_events_are_a_table_of_typed_columns(tmp_path: Path) -> None:
    why = ask(eventful(tmp_path).why(), "hourly", "2026-11-01T08:00Z", city="OSLO")
    table = events_table(why, why.sources[0][0])
    assert table["price"].to_pylist() == [Decimal(text) for text in ("1.00", "2.50", "0.50", "4.00", "1.00")]
    assert table["_layer"].to_pylist() == ["batch"] * 3 + ["speed"] * 2


def test_the_events_of_one_measure_are_those_that_it_reads(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.append(0, sale("a", 5), sale("b", 6, pieces=3), sale("c", 7, pieces=2), sale("d", 8, pieces=5))
    shop.trigger()
    why = ask(shop.why(), "hourly", "2026-11-01T08:00Z", city="OSLO")
    told = to_json(why, now=EIGHT, measures=("big",))
    source = told["sources"]["sales"]
    assert [each["at"] for each in source["listed"]] == ["T/0:1", "T/0:3"]
    assert (source["events"], told["layers"]["speed"]["events"]) == (2, 2)
    assert events_table(why, why.sources[0][0], ("big",))["_offset"].to_pylist() == [1, 3]
    assert to_json(why, now=EIGHT)["sources"]["sales"]["events"] == 4
    assert to_json(why, now=EIGHT, measures=("big", "orders"))["sources"]["sales"]["events"] == 4


def refusals(reader: WhyReader) -> Iterator[str]:
    for view, window, keys in (
        ("hourly", "2026-11-01T08:00Z", {}),
        ("fours", None, {"city": "OSLO"}),
    ):
        with pytest.raises(BadSelection) as refusal:
            ask(reader, view, window, **keys)
        yield str(refusal.value)


def test_what_is_not_one_row_is_refused(tmp_path: Path) -> None:
    missing, several = refusals(eventful(tmp_path).why())
    assert missing == "view 'hourly': a row has a value for each key; add --key city=..."
    assert "has 2 windows of this key; name the start of one, such as --window 2026-11-01T" in several


@pytest.mark.parametrize(
    ("view", "window", "nearest"),
    [
        ("hourly", "2026-11-01T08:30Z", "2026-11-01T08:00:00Z and 2026-11-01T09:00:00Z"),
        ("slides", "2026-11-01T08:00:01Z", "2026-11-01T08:00:00Z and 2026-11-01T09:00:00Z"),
        ("daily", "2026-11-01T08:00Z", "2026-11-01T00:00:00Z and 2026-11-02T00:00:00Z"),
    ],
)
def test_a_time_at_which_no_window_starts_is_refused(tmp_path: Path, view: str, window: str, nearest: str) -> None:
    with pytest.raises(BadSelection, match=f"no window that starts at .*; the nearest start at {nearest}"):
        ask(eventful(tmp_path).why(), view, window, city="OSLO")


def test_a_row_of_too_many_events_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TooManyEvents, match="more than 3 events"):
        ask(eventful(tmp_path).why(most=WorkBounds(3)), "hourly", "2026-11-01T08:00Z", city="OSLO")


@pytest.mark.parametrize(("most", "reason"), [(WorkBounds(9, bytes=100), "0 MB"), (WorkBounds(9, records=4), "5 offsets")])
def test_work_is_bound(tmp_path: Path, most: WorkBounds, reason: str) -> None:
    with pytest.raises(TooManyEvents, match=reason):
        ask(eventful(tmp_path).why(most=most), "hourly", "2026-11-01T08:00Z", city="OSLO")


def test_records_that_nothing_has_any_more_are_named(tmp_path: Path) -> None:
    shop = eventful(tmp_path)

    def gone(source: Any, missing: Any) -> Iterator[Any]:
        raise ReadFailed(f"{missing.length} records of {source.name} are gone")
        yield

    with pytest.raises(ReadFailed, match="5 records of sales are gone"):
        ask(WhyReader(Reader(shop.tables), gone), "hourly", "2026-11-01T08:00Z", city="OSLO")


@pytest.mark.parametrize("start", ["0001-01-01T00:00Z", "9999-12-31T23:00Z"])
def test_a_window_at_the_end_of_the_calendar_has_no_events(tmp_path: Path, start: str) -> None:
    reader = eventful(tmp_path).why()
    for view in ("hourly", "slides", "visits"):
        why = ask(reader, view, start, city="OSLO")
        assert (why.row, why.agrees, places(why)) == (None, True, [])
