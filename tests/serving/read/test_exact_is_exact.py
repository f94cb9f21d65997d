"""Answers labelled exact equal the plain oracle; those exact unless a duplicate was late equal it if none was.

Random logs, with duplicates that the speed layer knows and with ones beyond its dedup window, over views of every kind of window.
Every way of asking says the same of every row, and of the answer.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from tandem.cli.__main__ import main
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.realtime_writer import Writer
from tandem.serving.connection import Connection
from tandem.serving.http.protocol.media_types import ARROW, CSV, NDJSON
from tandem.serving.memory.store import Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Absent, Value
from tandem.serving.spark_frames import Frames
from tandem.views import oracle
from tandem.views.arrow.arrays import to_ipc
from tandem.views.exactness import MARK
from tandem.views.kernel.deduplicate import content_columns, identity_columns
from tandem.views.kernel.kernel import decode, deduplicate, partial, prepare
from tandem.views.source.offset_ranges import Ranges
from tandem.views.view import group_columns
from tests.samples import LONGER
from tests.serving.all_ways import DEFINITIONS, Row, Truth, event, exactly, in_order
from tests.serving.http.served import Served
from tests.serving.test_all_ways_agree import read
from tests.serving.world import NOON, SOURCE, Folded, World, position

HORIZON_S = 12
"""The test's log has a record a second in each partition."""
KNOWN = DEFINITIONS.replace(
    'event_time="moment")', f'event_time="moment", identity=("bytes", "price"), dedup_window=timedelta(seconds={HORIZON_S}))'
)
WORLDS = 60 if LONGER else 6
Identity = tuple[Any, ...]
Content = tuple[Any, ...]


@dataclass
class Deduplicating(World):
    """A world whose speed layer drops the copies that the log received within the dedup window, and whose batch drops all."""

    received: dict[Identity, list[datetime]] = field(default_factory=dict)
    seen: dict[Identity, set[Content]] = field(default_factory=dict)
    following: bool = False

    def trigger(self, to: Position | None = None) -> Any:
        self.following = True
        try:
            return super().trigger(to)
        finally:
            self.following = False

    def fold(self, start: Position, end: Position, reached: int | None = None) -> Folded:
        source = self.project.sources[SOURCE]
        events = decode(source, self.records(start, end)).events
        counted, conflicts = self._unknown(events) if self.following else (events, 0)
        found = deduplicate(source, counted)
        prepared = prepare(source, found.events)
        partials = {self.live.views[name].fingerprint: self._partial(name, prepared.events) for name in self.project.views}
        dropped = events.num_rows - found.events.num_rows
        counts = Counts(events=found.events.num_rows, duplicates=dropped, conflicts=conflicts or found.conflicts)
        return replace(super().fold(start, end, reached), counts=counts, partials=partials)

    def _partial(self, name: str, events: pa.Table) -> bytes:
        return to_ipc(partial(self.project.views[name], events, Ranges.of({})).states)

    def _unknown(self, events: pa.Table) -> tuple[pa.Table, int]:
        """The events that are no known copies, and how many known ones have a content of their own."""
        kept, conflicts = [], 0
        contents = zip(*(events[name].to_pylist() for name in content_columns(self.project.sources[SOURCE], events)), strict=True)
        received = events["_append_time"].to_pylist()
        for identity, content, time in zip(identities(self, events), contents, received, strict=True):
            before, known = self.received.setdefault(identity, []), self.seen.setdefault(identity, set())
            kept.append(not any(abs(time - other) <= timedelta(seconds=HORIZON_S) for other in before))
            conflicts += not kept[-1] and content not in known
            before.append(time)
            known.add(content)
        return events.filter(pa.array(kept, pa.bool_())), conflicts


def identities(world: World, events: pa.Table) -> list[Identity]:
    return list(zip(*(events[name].to_pylist() for name in identity_columns(world.project.sources[SOURCE])), strict=True))


class Once(Truth):
    """What the plain oracle says of the events without their copies."""

    @cached_property
    def _groups(self) -> dict[Any, Any]:
        source = self.world.project.sources[SOURCE]
        events = decode(source, self.world.records(self.start, self.end)).events
        generations = tuple(dict.fromkeys(topic for topic, _ in self.world.places))
        counted = oracle.counted(source, events, oracle.first_places(source, [events], generations), generations)
        return oracle.grouped(self.view, prepare(source, counted).events)[0]


def drawn(folder: Path, dice: Random) -> tuple[Deduplicating, Position]:
    """A world with a cut somewhere in a log of which about a third are copies, in some logs also late ones; and the cut."""
    world, late = Deduplicating(folder, definitions=KNOWN), dice.random() < 0.6
    ends = [LOG_START]
    for _ in range(dice.randrange(2, 5)):
        for _ in range(dice.randrange(1, 12)):
            partition = dice.randrange(2)
            now = len(world.log[partition])
            before = [value for values in world.log.values() for value in values[0 if late else max(0, now - HORIZON_S) :]]
            world.append(partition, dice.choice(before) if before and dice.random() < 0.35 else event(dice))
        world.trigger()
        ends.append(world.writer.end)
    cut = dice.choice(ends)
    if cut != LOG_START:
        world.recompute(cut)
    return world, cut


def late_from(world: World, cut: Position) -> bool:
    """Whether an event from the cut on has a copy that the log received more than the dedup window earlier or later."""
    events = decode(world.project.sources[SOURCE], world.records(LOG_START, world.end)).events
    received: dict[Identity, list[datetime]] = {}
    for identity, time in zip(identities(world, events), events["_append_time"].to_pylist(), strict=True):
        received.setdefault(identity, []).append(time)
    tail = decode(world.project.sources[SOURCE], world.records(cut, world.end)).events
    most = timedelta(seconds=HORIZON_S)
    return any(max(received[one]) - min(received[one]) > most for one in identities(world, tail))


def expected(world: World, name: str, start: Position, end: Position) -> dict[tuple[Any, ...], Row]:
    """What the oracle has of every row, of the columns that are exact, by what tells rows apart."""
    view = world.project.views[name]
    columns = group_columns(view)
    return {tuple(row.said[one] for one in columns): row.said for row in Once(world, view, start, end).rows}


@pytest.mark.each_run("[0-2]")
@pytest.mark.parametrize("seed", range(WORLDS))
def test_a_value_is_as_exact_as_its_label_says(seed: int, tmp_path: Path) -> None:
    world, cut = drawn(tmp_path, Random(seed))
    late = late_from(world, cut)
    reader = Reader(world.tables)
    for name, view in world.project.views.items():
        answer, columns = reader.answer(name), group_columns(view)
        assert isinstance(answer, Value | Absent)
        truth, below = expected(world, name, LOG_START, world.end), expected(world, name, LOG_START, cut)
        said = answer.provenance.exactness
        excused = late or any(reason.name == "conflicting_duplicate" for reason in said.every)
        if not excused:
            assert len(answer.rows()) == len(truth)
        for row in answer.rows():
            group, marked = tuple(row[one] for one in columns), MARK in row
            for column in exactly(view):
                label = said.of(column, marked=marked)
                assert label in ("exact", "exact_unless_duplicate")
                if group not in truth or truth[group][column] != row[column]:
                    assert (excused, label) == (True, "exact_unless_duplicate"), (name, group, column)
            if not marked and not said.every:
                assert {one: row[one] for one in below[group]} == below[group], "what is exact beside others is what batch found"


@pytest.mark.each_run("[3-5]")
@pytest.mark.parametrize("seed", range(WORLDS))
def test_memory_marks_the_rows_that_the_reader_marks(seed: int, tmp_path: Path) -> None:
    """All rows at once or each by itself, also where a later window that overlaps has realtime states and this one has none."""
    dice = Random(seed)
    world, _ = drawn(tmp_path, dice)
    at, reader = Connection(Store(world.tables, seed)).snapshot(), Reader(world.tables)
    for name, view in world.project.views.items():
        answer = reader.answer(name)
        assert isinstance(answer, Value | Absent)
        assert at.view(name).memory is not None
        assert at.view(name).scan().rows() == answer.rows()
        if not in_order(view):
            keys, starts = answer.table.select([*view.keys]).to_pylist(), answer.table["window_start"].to_pylist()
            for key, start, row in zip(keys, starts, answer.rows(), strict=True):
                assert at.view(name).get(key, window=start) == row, (name, key, start)


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Deduplicating:
    """Two pages in three hours below the cut, one of them in two more windows and in one session above it."""
    world = Deduplicating(tmp_path_factory.mktemp("half"), definitions=KNOWN)
    world.append(0, *(visit(page, minute) for minute in (0, 60, 120) for page in ("/a", "/b")))
    world.trigger()
    world.recompute(position(6))
    world.append(0, visit("/a", 65), visit("/a", 200))
    world.trigger()
    return world


def visit(page: str, minute: int) -> bytes:
    moment = (NOON + timedelta(minutes=minute)).isoformat()
    return json.dumps(
        {"moment": moment, "page": page, "bytes": 5 if page == "/a" else 10, "price": "1.00", "ms": 1.5, "ok": page == "/a"}
    ).encode()


TOUCHED: dict[str, list[tuple[Any, str]]] = {
    "hourly": [("/a", "13:00"), ("/a", "15:00")],
    "hops": [("/a", f"{12 + at // 60}:{at % 60:02}") for at in (40, 50, 60, 180, 190, 200)],
    "visits": [("1.00", "13:00"), ("1.00", "15:20")],
    "days": [(0, "23:00")],
    "threes": [(True, "12:00"), (True, "13:05")],
}
"""By view the rows that the two events above the cut are part of, or may be moved by: key and window's start."""


@pytest.mark.each_run("hourly", "visits")
@pytest.mark.parametrize("name", TOUCHED)
def test_every_interface_marks_exactly_the_rows_with_realtime_states(half: Deduplicating, name: str) -> None:
    view = half.project.views[name]
    ways = dict(every_way(half, name))
    assert len(ways) >= 7
    _, said = ways["reader"]
    assert said is not None
    assert [reason["reason"] for reason in said["marked"]] == ["late_duplicate"]
    assert (said["every"], said["marked"][0]["says"]) == (
        [],
        f"exact unless a duplicate arrived later than {HORIZON_S} s after the first copy",
    )
    for way, (rows, told) in ways.items():
        found = [(row[next(iter(view.keys))], row["window_start"][11:16]) for row in rows if MARK in row]
        assert sorted(found) == sorted(TOUCHED[name]), way
        assert all(row[MARK] == ["late_duplicate"] for row in rows if MARK in row), way
        assert told in (None, said), way


def every_way(world: World, name: str) -> Iterator[tuple[str, tuple[list[Row], Mapping[str, Any] | None]]]:
    """The rows of a view, and what is said of how exact they are, by every way there is."""
    view = world.project.views[name]

    def said(outcome: Value | Absent) -> tuple[list[Row], Mapping[str, Any]]:
        return outcome.rows(), outcome.provenance.to_json(now=NOON)["exactness"]

    answer = Reader(world.tables).answer(name)
    assert isinstance(answer, Value)
    yield "reader", said(answer)
    at = Connection(Store(world.tables, 7)).snapshot().view(name)
    keys = answer.table.select([*view.keys]).to_pylist()
    yield "scan", said(at.scan())
    yield "lookup", said(at.lookup(keys))
    outgrown = Connection(Store(world.tables, 7, memory=0)).snapshot().view(name)
    assert outgrown.memory is None
    yield "scan of files", said(outgrown.scan())
    if not in_order(view):
        starts = answer.table["window_start"].to_pylist()
        yield "get", ([at.get(key, window=start) or {} for key, start in zip(keys, starts, strict=True)], None)
    with Served(world).asker() as asker:
        found = asker.get(f"/views/{name}/rows").json()
        yield "rows", (found["rows"], found["provenance"]["exactness"])
        for media in (NDJSON, CSV, ARROW):
            other = asker.get(f"/views/{name}/rows", headers={"Accept": media})
            told = json.loads(other.headers["tandem-provenance"])["exactness"]
            yield media, (read(other.content, NDJSON, None) if media == NDJSON else found["rows"], told)
        told = asker.post("/sql", json={"statement": f"SELECT * FROM {name}"}).json()["provenance"]
        assert told["exactness"]["label"] == told["views"][name]["exactness"]["label"]
        yield "sql", (found["rows"], told["views"][name]["exactness"])


@pytest.mark.slow
def test_commands_use_the_words_of_answers(half: Deduplicating, capsys: pytest.CaptureFixture[str]) -> None:
    def ran(*command: str) -> dict[str, Any]:
        assert main([*command, "--json", "--project", str(half.folder)]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    status = ran("status")
    for name in half.project.views:
        answer = Reader(half.tables).answer(name)
        assert isinstance(answer, Value)
        said = answer.provenance.to_json(now=NOON)["exactness"]
        queried = ran("query", name)
        for row in queried["rows"]:
            row.pop("_local", None)  # the window in the view's zone
        assert (queried["rows"], queried["provenance"]["exactness"]) == (answer.rows(), said)
        assert status["views"][name]["exactness"] == ran("explain", name)["serving"]["exactness"] == said
        frames = Frames(None, Reader(half.tables), {})  # no session is asked
        assert frames.exactness(name) == answer.provenance.exactness
        checked = ran("check")["views"][name]["measures"]
        assert {one: [how["exactness"]] for one, how in checked.items() if how["exactness"]} == said["columns"]
        found = ran("sql", f"SELECT count(*) FROM {name}")["_provenance"]
        assert (found["exactness"]["label"], found["views"][name]["exactness"]) == (said["label"], said)
    assert main(["explain", "hourly", "--project", str(half.folder)]) == 0
    printed = capsys.readouterr().out
    assert f"rows exact unless a duplicate arrived later than {HORIZON_S} s after the first copy" in printed
    assert main(["status", "--project", str(half.folder)]) == 0
    assert "exact unless duplicate" in capsys.readouterr().out


def test_rows_that_changed_are_marked_like_any(half: Deduplicating, tmp_path: Path) -> None:
    world = half.moved(tmp_path)
    connection = Connection(Store(world.tables, 7))
    token = connection.view("hourly").now().token
    world.append(0, visit("/b", 121))
    world.writer = Writer.claim(world.tables, 1, SOURCE, by="test", at=NOON)
    world.trigger()
    connection.refresh()
    changed = next(connection.view("hourly").changes(token))
    assert [(row["page"], row["window_start"][11:16], row[MARK]) for row in changed.rows.rows()] == [
        ("/b", "14:00", ["late_duplicate"])
    ]
    batch = world.recompute(world.end)
    connection.refresh()
    now = connection.view("hourly").now()
    assert (batch.number, now.provenance.exactness.rows) == (now.provenance.publication, "exact")
    assert all(MARK not in row for row in now.scan().rows())


def test_an_answer_without_realtime_rows_is_exact_in_every_interface(half: Deduplicating) -> None:
    at = Connection(Store(half.tables, 7)).snapshot().view("hourly")
    reader = Reader(half.tables)
    told = {
        ("/b", 12): "exact",
        ("/a", 12): "exact",
        ("/a", 13): "exact_unless_duplicate",
        ("/a", 17): "exact",
    }
    with Served(half).asker() as asker:
        for (page, hour), label in told.items():
            start, end = (NOON.replace(hour=one) for one in (hour, hour + 1))
            texts = {"key.page": page, "from": start.isoformat(), "to": end.isoformat(), "measures": "n"}
            one = {"key.page": page, "window": start.isoformat(), "measures": "n"}
            paths = {
                "rows": asker.get("/views/hourly/rows", params=texts),
                "row": asker.get("/views/hourly/row", params=one),
                "row of files": asker.get("/views/hourly/row", params=one | {"layer": "merged"}),
                "lookup": asker.post(
                    "/views/hourly/lookup",
                    json={"keys": [{"page": page}], "from": start.isoformat(), "to": end.isoformat(), "measures": ["n"]},
                ),
            }
            assert paths["row"].content == paths["row of files"].content, "the way of one row at once has the bytes of the other"
            assert paths["row"].headers["etag"] == paths["row of files"].headers["etag"]
            rows = {way: answer.json()["provenance"]["exactness"]["every"] for way, answer in paths.items()}
            assert rows == {way: [] for way in paths}
            found = {way: _rows_label(answer.json()["provenance"]["exactness"]) for way, answer in paths.items()}
            assert found == dict.fromkeys(paths, label), (page, hour)
            in_memory = at.scan({"page": page}, between=(start, end))
            for outcome in (in_memory, reader.answer("hourly", keys={"page": page}, between=(start, end))):
                assert isinstance(outcome, Value | Absent)
                assert outcome.provenance.exactness.rows == label
            assert MARK in (at.get(page=page, window=start) or {}) or label == "exact"
    batch = reader.answer("hourly", layer="batch")
    assert isinstance(batch, Value)
    assert batch.provenance.exactness.rows == "exact"


def _rows_label(said: Mapping[str, Any]) -> str:
    return next((reason["label"] for reason in [*said["every"], *said["marked"]]), "exact")


def test_query_counts_the_rows_that_may_have_a_duplicate(half: Deduplicating, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "hourly", "--project", str(half.folder)]) == 0
    printed = capsys.readouterr().out
    assert f"exact unless a duplicate arrived later than {HORIZON_S} s after the first copy" in printed
    assert f"2 of these 7 rows may count a duplicate; {MARK} marks them" in printed
    assert "pages: estimate, \u00b1" in printed
    assert main(["query", "hourly", "--key", "page=/b", "--project", str(half.folder)]) == 0
    printed = capsys.readouterr().out
    assert "duplicate" not in printed
    assert "\nexact\n" in printed


def test_conflicting_duplicates_in_several_partitions_leave_no_row_exact(tmp_path: Path) -> None:
    world = Deduplicating(tmp_path, definitions=KNOWN)
    world.append(1, visit("/a", 0))
    world.trigger()
    world.recompute(position(0, 1))
    world.append(0, visit("/a", 0).replace(b"1.5", b"2.5"))
    world.trigger()
    answer = Reader(world.tables).answer("hourly")
    assert isinstance(answer, Value)
    assert [row["ms"] for row in answer.rows()] == [1.5]
    world.recompute(world.end)
    after = Reader(world.tables).answer("hourly")
    assert isinstance(after, Value)
    assert [row["ms"] for row in after.rows()] == [2.5]
    assert after.provenance.exactness.rows == "exact"
    assert [reason.name for reason in answer.provenance.exactness.every] == ["conflicting_duplicate"]
    assert answer.provenance.exactness.of("n", marked=False) == "exact_unless_duplicate"


def test_copies_that_differ_in_one_partition_have_one_that_counts(tmp_path: Path) -> None:
    """Both layers take the first of them, so no answer says that batch may count another one."""
    world = Deduplicating(tmp_path, definitions=KNOWN)
    world.append(0, visit("/a", 0))
    world.trigger()
    world.recompute(position(1))
    world.append(0, visit("/a", 0).replace(b"1.5", b"2.5"), visit("/a", 1))
    commit = world.trigger()
    answer = Reader(world.tables).answer("hourly")
    assert isinstance(answer, Value)
    assert commit.counts.conflicts == 1
    assert answer.provenance.exactness.every == ()
    assert [row[MARK] for row in answer.rows()] == [["late_duplicate"]]


def test_a_session_that_begins_where_another_ends_touches_only_itself(tmp_path: Path) -> None:
    world = Deduplicating(tmp_path, definitions=KNOWN)
    world.append(0, visit("/a", 0))
    world.trigger()
    world.recompute(position(1))
    world.append(0, visit("/a", 10))
    world.trigger()
    answer = Reader(world.tables).answer("visits")
    assert isinstance(answer, Value)
    assert [(row["window_end"][11:16], MARK in row) for row in answer.rows()] == [("12:10", False), ("12:20", True)]
    assert Connection(Store(world.tables, 7)).view("visits").now().scan().rows() == answer.rows()


def test_a_limit_of_no_row_says_what_all_rows_say(half: Deduplicating) -> None:
    reader, at = Reader(half.tables), Connection(Store(half.tables, 7)).snapshot().view("hourly")
    whole = reader.answer("hourly")
    assert isinstance(whole, Value)
    assert whole.provenance.exactness.marked
    for none in (reader.answer("hourly", limit=0), at.scan(limit=0)):
        assert isinstance(none, Value)
        assert (none.rows(), none.total, none.provenance) == ([], whole.total, whole.provenance)
    first = reader.answer("hourly", limit=1)
    assert isinstance(first, Value)
    assert (MARK in first.rows()[0], first.provenance.exactness.marked) == (False, ())
