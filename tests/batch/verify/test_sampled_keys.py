"""Published answers of sampled keys are compared with their events, wherever in the log these are, without Spark."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tandem.batch.fold.fold_job import VERSION
from tandem.batch.runtime import delta_commits
from tandem.batch.runtime.parquet_writer import TableFile
from tandem.batch.verify import oracle_sample
from tandem.batch.verify.oracle_sample import Sampled, draw, sampled
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import EVENTS
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.batch_parts import BatchPart, BatchView, files_of
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release
from tandem.ledger.stored_states import stored
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint, fingerprint
from tandem.views.kernel import kernel
from tandem.views.measures import count, mean
from tandem.views.project import project
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.source import events_schema
from tandem.views.verify.compare import MeasureDifference
from tandem.views.view import View, state_schema
from tandem.views.windows import WINDOW_COLUMNS

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
DEFINITIONS = """
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
from tandem import (CustomMeasure, Event, Scale, Source, View, approx_count_distinct, collect_set, count, count_window, first,
    hopping, last, mean, session, total, tumbling)


class Sale(Event):
    id: str
    at: datetime
    shop: str | None
    cents: int
    price: Annotated[Decimal, Scale(2)]
    note: str = ""


@dataclass(frozen=True)
class Own(CustomMeasure):
    expression: str
    state = pa.int64()
    answer = pa.int64()

    @property
    def inputs(self):
        return (self.expression,)

    def partial(self, groups):
        return pa.array([sum(one["v0"] for one in group) for group in groups.to_pylist()], pa.int64())

    def merge(self, groups):
        return pa.array([sum(group) for group in groups.to_pylist()], pa.int64())

    def present(self, states):
        return states


def words(sales):
    split = pc.split_pattern_regex(sales["note"].combine_chunks(), " ")
    return sales.take(pc.list_parent_indices(split)).append_column("word", pc.list_flatten(split))


sales = Source(topic="sales", event=Sale, event_time="at", identity=("id",))
again = Source(topic="again", event=Sale, event_time="at", identity=("id",), identity_spans="any_time")
notes = Source(topic="notes", event=Sale, event_time="at", identity=("id",), prepare=words)
per_hour = View(sales, keys={"shop": "upper(shop)"}, window=tumbling(hours=1), measures={
    "n": count(), "cents": total("cents"), "price": total("price"), "usual": mean("cents"), "ids": collect_set("id"),
    "own": Own("cents")})
nowhere = View(sales, keys={"day": 'CAST("at" AT TIME ZONE id AS DATE)'}, measures={"price": total("price")})
visits = View(sales, keys={"shop": "shop", "paid": "cents > 0"}, window=session(minutes=10), where="10 // cents < 9",
    measures={"n": count(), "ids": approx_count_distinct("id"), "last": last("cents")})
tens = View(sales, window=count_window(10), measures={"n": count(), "first": first("cents")})
whole = View(sales, measures={"n": count()})
hops = View(sales, keys={"shop": "shop"}, window=hopping(timedelta(hours=2), every=timedelta(hours=0.5)),
    measures={"n": count()})
per_word = View(notes, keys={"word": "word"}, measures={"n": count(), "cents": total("cents")})
once = View(again, keys={"shop": "shop"}, window=tumbling(hours=1), measures={"n": count(), "cents": total("cents")})
SOURCES = (sales, notes, again)
VIEWS = (once, per_hour, nowhere, visits, tens, whole, hops, per_word)
"""
FILES = {"tandem.toml": b"", "definitions.py": DEFINITIONS.encode()}
PROJECT = project.load_files(FILES)
RELEASE = Release(
    1,
    AT,
    "test",
    {name: decoder_fingerprint(source) for name, source in PROJECT.sources.items()},
    {name: fingerprint(view) for name, view in PROJECT.views.items()},
    FILES,
)
GENERATIONS = ("Z", "A")
"""The older topic's id is the later one in the alphabet."""

Sale = Mapping[str, Any]


def sale(id_: str, minutes: float, shop: str | None, cents: int, note: str = "") -> Sale:
    at, price = AT + timedelta(minutes=minutes), Decimal(cents) / 100
    return {"id": id_, "at": at, "shop": shop, "cents": cents, "price": price, "note": note}


def log(*partitions: tuple[str, int, Sequence[Sale]], source: str = "sales") -> pa.Table:
    rows = [
        {"_topic_id": topic, "_partition": number, "_offset": offset, "_append_time": AT, **one}
        for topic, number, sales in partitions
        for offset, one in enumerate(sales)
    ]
    return pa.Table.from_pylist(rows, events_schema(PROJECT.sources[source]))


SALES = (
    ("Z", 0, [sale(f"z{n}", n * 3, ["oslo", "Oslo", "bergen", None][n % 4], n - 5) for n in range(40)]),
    # Late by hours, copies of what is in the other generation, with another content and another key.
    ("A", 0, [sale(f"a{n}", n - 300, "bergen", n) for n in range(12)] + [sale("z2", 6, "oslo", 999), sale("z3", 9, None, -2)]),
    ("A", 1, [sale("a3", -297, None, 1000), *(sale(f"b{n}", 5 * n, "oslo", 3) for n in range(5))]),
)


class Published:
    """Events in a release's events table, and the kernel's batch views of them, or of those `counted`, in two parts; no Spark."""

    def __init__(self, folder: Path, events: pa.Table, *views: str, counted: pa.Table | None = None) -> None:
        self.views = {name: PROJECT.views[name] for name in views}
        self.tables, self.source = Tables(str(folder)), self.views[views[0]].source
        source = self.source.name
        ends: dict[tuple[str, int], int] = {}
        for topic, number, offset in zip(*(events[name].to_pylist() for name in EVENTS.names), strict=True):
            ends[topic, number] = max(ends.get((topic, number), 0), offset + 1)
        older = Position.of({partition: end for partition, end in ends.items() if partition[0] == "Z"})
        self.cut = Position.of(ends)
        ledger = ArchiveLedger(self.tables, source)
        ledger.name_topics({"anew" if n else "first": id_ for n, id_ in enumerate(GENERATIONS)}, at=AT)
        start = LOG_START
        for end in dict.fromkeys([older, self.cut]):
            if end != start:
                ledger.intend(start=start, end=end, by="archive", at=AT)
            start = end
        address = self.tables.events(source, RELEASE.sources[source])
        schema = events_schema(self.source)
        # One more event than there are below the cut.
        beyond = events.slice(0, 1).to_pylist()[0] | {"_offset": ends[events["_topic_id"][0].as_py(), 0], "id": "beyond"}
        rows = pa.concat_tables([events, pa.Table.from_pylist([beyond], schema)])
        handle = delta_commits.make_table(self.tables, address, schema, bounded=EVENTS.names)
        delta_commits.add_files(handle, [_file(self.tables, address, rows.slice(start, 25)) for start in range(0, len(rows), 25)])
        once = kernel.deduplicate(self.source, events, generations=GENERATIONS).events
        self.counted = once if counted is None else counted
        self.live = {name: self._publish(view) for name, view in self.views.items()}

    def _publish(self, view: View) -> BatchView:
        prepared = kernel.prepare(view.source, self.counted, GENERATIONS).events
        in_first = pc.less(prepared["_offset"], 9)
        parts = []
        for version, rows in enumerate([prepared.filter(in_first), prepared.filter(pc.invert(in_first))], 1):
            states = kernel.partial(view, rows, EMPTY).states
            address = self.tables.view(view.name, RELEASE.views[view.name])
            schema = state_schema(view).append(pa.field(VERSION, pa.int64()))
            handle = delta_commits.make_table(self.tables, address, schema, partition_by=VERSION, bounded=WINDOW_COLUMNS)
            written = TableFile(Location.of(self.tables, address), state_schema(view), (), {VERSION: str(version)})
            with written:
                written.write(states)
            delta_commits.add_files(handle, [] if written.written is None else [written.written])
            parts.append(BatchPart(version, states.num_rows, self.cut))
        return BatchView(RELEASE.views[view.name], tuple(parts))

    def change(self, view: str, changed: Any) -> None:
        """Publish other states of a view's first part."""
        old = self.live[view].parts[0]
        address = self.tables.view(view, RELEASE.views[view])
        handle, (first,) = files_of(self.tables, address, old)
        states = next(stored(self.views[view], Location.of(self.tables, address), first.path, ()))
        file = TableFile(Location.of(self.tables, address), states.schema, (), {VERSION: "9"})
        with file:
            file.write(changed(states))
        assert file.written is not None
        delta_commits.add_files(handle, [file.written])
        parts = (BatchPart(9, file.written.rows, self.cut), *self.live[view].parts[1:])
        self.live[view] = BatchView(RELEASE.views[view], parts)

    def sampled(self, keys: int = 100, number: int = 7) -> dict[str, Sampled]:
        live = Publication(number, 0, AT, "test", "recompute", 1, {self.source.name: self.cut}, self.live)
        return {one.view: one for one in sampled(self.tables, live, RELEASE, self.source, self.views, keys=keys)}


def _file(tables: Tables, address: str, rows: pa.Table) -> Any:
    with TableFile(Location.of(tables, address), rows.schema, EVENTS.names) as file:
        file.write(rows)
    return file.written


def test_published_answers_equal_the_oracles(tmp_path: Path) -> None:
    found = Published(tmp_path, log(*SALES), "per_hour", "nowhere", "visits", "tens", "whole", "hops").sampled()

    keys = {"per_hour": 3, "nowhere": 0, "visits": 8, "tens": 1, "whole": 1, "hops": 4}
    assert {name: one.keys for name, one in found.items()} == keys
    assert {name: one.differ for name, one in found.items()} == dict.fromkeys(found, 0)
    assert found["per_hour"].answers == 5 * (2 + 3 + 2)
    assert {each.figures.rows for each in found["tens"].compared} == {4 + 2 + 1}
    assert found["per_hour"].left_out == ("own",)
    assert {each.measure for each in found["per_hour"].compared} == {"n", "cents", "price", "usual", "ids"}
    assert {each.between for one in found.values() for each in one.compared} == {("published", "oracle")}
    assert not any(one.too_large for one in found.values())


def test_wrong_states_are_found(tmp_path: Path) -> None:
    published = Published(tmp_path, log(*SALES), "per_hour", "visits")

    def changed(states: pa.Table) -> pa.Table:
        rows = states.to_pylist()
        for shop in ("OSLO", None):
            next(row for row in rows if row["shop"] == shop)["cents"] += 1
        return pa.Table.from_pylist(rows, states.schema)

    published.change("per_hour", changed)
    found = published.sampled()

    wrong = {each.measure: each.figures for each in found["per_hour"].compared if each.figures.differ}
    assert list(wrong) == ["cents"]
    assert (wrong["cents"].differ, wrong["cents"].cause) == (2, "unexplained")
    assert {example["row"]["shop"]: example["served"] - example["found"] for example in wrong["cents"].examples} == {
        "OSLO": 1,
        None: 1,
    }
    assert (found["per_hour"].differ, found["visits"].differ) == (2, 0)


def test_a_duplicate_counts_at_its_first_position(tmp_path: Path) -> None:
    """The first copy has another key, so whoever looks at the events of one key alone takes the second for an event."""
    events = log(*SALES)
    once = kernel.deduplicate(PROJECT.sources["sales"], events, generations=GENERATIONS).events
    assert events.num_rows - once.num_rows == 3
    copy = events.filter(pc.field("cents") == 999)
    shops = pa.table({"shop": ["OSLO", "BERGEN", None]})
    number = next(n for n in range(99) if draw(PROJECT.views["per_hour"], [shops], 1, n)["shop"].to_pylist() == ["OSLO"])

    published = Published(tmp_path, events, "per_hour", counted=pa.concat_tables([once, copy]))
    found = published.sampled(1, number)["per_hour"]

    assert found.keys == 1
    wrong = {each.measure: each.figures.differ for each in found.compared}
    assert wrong == {"n": 1, "cents": 1, "price": 1, "usual": 1, "ids": 1}
    (example,) = next(each.figures.examples for each in found.compared if each.measure == "cents")
    assert example["row"]["shop"] == "OSLO"
    assert example["served"] == example["found"] + 999


def test_a_retry_with_another_time_is_a_duplicate_where_the_identity_spans_any_time(tmp_path: Path) -> None:
    """The first is in another window and of another key, far back in the log."""
    retries = [sale("1", 0, "oslo", 5), sale("2", 1, "oslo", 7), *(sale(f"b{n}", n, "oslo", 1) for n in range(30))]
    retries += [sale("1", 200, "bergen", 5), sale("2", 300, "oslo", 7), sale("3", 300, "oslo", 9)]
    events = log(("Z", 0, retries), source="again")
    published = Published(tmp_path / "right", events, "once")
    assert published.counted.num_rows == len(retries) - 2
    found = published.sampled()["once"]
    assert (found.keys, found.answers, found.differ) == (1, 4, 0)
    wrong = Published(tmp_path / "wrong", events, "once", counted=events).sampled()["once"]
    assert wrong.differ == 4  # a window of Bergen that there is not, and a sale too many in Oslo's


def test_a_key_with_too_many_events_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has one answer over all time, or windows in the order of the log: no part of its events decides any of them."""
    monkeypatch.setattr(oracle_sample, "MOST_EVENTS", 15)
    found = Published(tmp_path, log(*SALES), "whole", "tens").sampled()

    for one in found.values():
        assert one.too_large == ({},)
        assert (one.keys, one.windows, one.answers, one.differ) == (0, 0, 0, 0)


@pytest.mark.slow
def test_windows_stand_for_a_key_with_too_many_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each shop there are ten events and more; in hops each event is in four windows."""
    monkeypatch.setattr(oracle_sample, "MOST_EVENTS", 13)
    published = Published(tmp_path, log(*SALES), "per_hour", "hops", "visits")
    found = published.sampled()

    assert not any(one.too_large for one in found.values())
    assert {name: (one.keys, one.windows > 2) for name, one in found.items()} == {
        "per_hour": (3, True),
        "hops": (4, True),
        "visits": (8, True),
    }
    assert {name: one.differ for name, one in found.items()} == dict.fromkeys(found, 0)
    assert all(one.answers >= one.windows for one in found.values())

    def changed(states: pa.Table) -> pa.Table:
        return pa.Table.from_pylist([row | {"cents": row["cents"] + 1} for row in states.to_pylist()], states.schema)

    published.change("per_hour", changed)
    again = published.sampled()["per_hour"]
    assert {each.measure for each in again.compared if each.figures.differ} == {"cents"}


def test_a_session_that_is_published_in_two_halves_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The window of each half cuts off what the other has."""
    monkeypatch.setattr(oracle_sample, "MOST_EVENTS", 5)
    one_visit = [sale(str(n), 9 * n, "oslo", 3) for n in range(6)]
    published = Published(tmp_path, log(("Z", 0, one_visit)), "visits")
    assert published.sampled()["visits"].answers == 0  # the one session has too many events

    def halves(states: pa.Table) -> pa.Table:
        (row,) = states.to_pylist()
        middle = row["window_start"] + timedelta(minutes=28)
        rows = [row | {"window_end": middle}, row | {"window_start": middle}]
        return pa.Table.from_pylist(rows, states.schema)

    published.change("visits", halves)
    found = published.sampled()["visits"]
    assert (found.windows, found.differ > 0) == (1, True)


def test_prepared_rows_are_compared(tmp_path: Path) -> None:
    notes = [sale("1", 0, None, 5, "a b a"), sale("2", 0, None, 7, "b"), sale("3", 0, None, 1), sale("2", 0, None, 9, "c a")]
    published = Published(tmp_path, log(("Z", 0, notes), source="notes"), "per_word")
    found = published.sampled()["per_word"]
    assert (found.keys, found.answers, found.differ) == (3, 6, 0)

    published.change("per_word", lambda states: pa.concat_tables([states, states.slice(0, 1)]))
    assert published.sampled()["per_word"].differ == 2


def test_the_sample_depends_on_the_publication_and_not_on_the_pieces(tmp_path: Path) -> None:
    view = View(PROJECT.sources["sales"], keys={"shop": "shop", "cents": "cents"}, measures={"n": count()})
    events = log(("Z", 0, [sale(str(n), 0, None if n % 7 == 0 else f"shop {n}", n % 5) for n in range(400)]))
    states = kernel.partial(view, events, EMPTY).states

    def drawn(publication: int, pieces: int) -> list[dict[str, Any]]:
        size = -(-states.num_rows // pieces)
        some = (states.slice(start, size) for start in range(0, states.num_rows, size))
        return [{name: row[name] for name in view.keys} for row in draw(view, some, 20, publication).to_pylist()]

    assert len(drawn(1, 1)) == 20
    assert drawn(1, 1) == drawn(1, 9)
    assert drawn(1, 1) != drawn(2, 1)
    assert draw(view, [], 20, 1).num_rows == 0
    assert draw(view, [states], 1000, 1).num_rows == states.num_rows


def test_a_difference_beyond_the_oracles_tolerance_has_no_cause() -> None:
    view = View(PROJECT.sources["sales"], measures={"usual": mean("cents / 7")})
    within, beyond = (MeasureDifference("usual", rows=1, unequal=1, differ=differ) for differ in (0, 1))
    assert oracle_sample._compared(view, within).figures.cause == "float order"
    assert oracle_sample._compared(view, beyond).figures.cause == "unexplained"
