"""Answers from memory equal the reader's, row for row, after every commit, compaction, recompute, promotion and fault."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger import cut_decision
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.batch_parts import BatchPart, starting_within
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.realtime import commit_files
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime_writer import Writer
from tandem.serving.connection import Connection
from tandem.serving.memory import stack
from tandem.serving.memory.store import MEMORY, Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Absent, ReadFailed, Value
from tandem.serving.read.selection import ALWAYS, select
from tandem.views.arrow.arrays import from_ipc
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.kernel.kernel import merge_states
from tandem.views.project.project import load_files
from tandem.views.view import View
from tests.samples import cases, just
from tests.serving import oracle
from tests.serving.world import DEFINITIONS, NOON, SOURCE, World, hit, nine_hits, position

MORE = (
    DEFINITIONS.replace(
        "import Event,", "import hopping, session, count_window, sliding_count_window, calendar, all_time, rollup, Table, Event,"
    )
    .replace(
        "VIEWS = (per_page, ever, inverse)",
        """
n = {"n": count(), "bytes": total("bytes"), "mean": mean("bytes")}
five, two = timedelta(minutes=5), timedelta(minutes=2)
hops = View(source=hits, keys={"page": "page"}, window=hopping(five, every=two), measures=n)
visits = View(source=hits, keys={"page": "page", "odd": "bytes % 2 = 1"}, window=session(minutes=3), measures=n)
pairs = View(source=hits, keys={"page": "page"}, window=count_window(2), measures=n)
lasts = View(source=hits, keys={"price": "price"}, window=sliding_count_window(2), measures=n)
days = View(source=hits, keys={"page": "page"}, window=calendar("day", zone="Europe/Berlin"), measures=n)
minutes = View(source=hits, window=tumbling(minutes=1), measures=n)

thirds = rollup(hops, keys={"page": "substr(page, 2)"}, window=tumbling(minutes=3))
daily = rollup(per_page, window=calendar("day", zone="Europe/Berlin"), measures=("mean", "n", "price"))
overall = rollup(daily, keys=(), window=all_time(), measures=("n",))
newest = Table(hits, key={"page": "page"}, gone="bytes = 2", fields={"price": "price"})

VIEWS = (per_page, ever, inverse, hops, visits, pairs, lasts, days, minutes, thirds, daily, overall, newest)
""",
    )
    .replace("from datetime import datetime\n", "from datetime import datetime, timedelta\n")
)
KNOWN = MORE.replace('event_time="moment"', 'event_time="moment", identity=("bytes",)')
"""Rows then say whether a duplicate may be in them; these worlds count every event all the same."""
VIEWS = (
    *("per_page", "ever", "inverse", "hops", "visits", "pairs", "lasts", "days", "minutes", "thirds", "daily", "overall"),
    *("newest", "newest_versions"),
)
SLICED = ("per_page", "hops", "days", "minutes")
IN_ORDER = ("pairs", "lasts")
ORACLES = {"per_page": oracle.per_page, "ever": oracle.ever, "inverse": oracle.inverse}

events = st.builds(
    hit,
    st.sampled_from(["/a", "/b", "/ä", None]),
    st.integers(0, 3),
    minute=st.integers(-3, 65),
    price=st.sampled_from(["0.10", "7.00"]),
)
some = st.lists(events | st.just(b"{"), min_size=1, max_size=4)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(0, 1), some),
        st.tuples(st.just("commit"), st.integers(0, 1), some),
        st.tuples(st.just("recompute"), st.integers(0, 2)),
        st.tuples(st.just("extend"), st.integers(0, 2)),
        st.tuples(st.just("mend"), st.integers(-1, 0)),
        st.tuples(st.just("compact")),
        st.tuples(st.just("promote")),
        st.tuples(st.just("blind"), st.integers(0, 1), some),
    ),
    min_size=3,
    max_size=9,
)


@just(40, quick=cases(4, bug=10, longer=10))
@given(steps, st.integers(0, 2**64 - 1), st.sampled_from([MORE, KNOWN]))
def test_after_every_step_memory_reader_and_oracle_agree(steps: list[tuple[Any, ...]], seed: int, definitions: str) -> None:
    with TemporaryDirectory() as folder:
        world = World(Path(folder), definitions=definitions)
        played = Played(world)
        connection = Connection(Store(world.tables, seed))
        for step in steps:
            if played.play(step):
                connection.refresh()
                check(world, connection)


class Played:
    """A world to which steps happen; its readers look after those for which `play` says so."""

    def __init__(self, world: World) -> None:
        self.world, self.cut, self.release = world, LOG_START, 1
        self.boundaries = [LOG_START]
        self.parts: tuple[int, ...] = ()

    def play(self, step: tuple[Any, ...]) -> bool:
        match step:
            case ("commit" | "blind" as what, int(partition), list(values)):
                self.world.append(partition, *values)
                self.world.trigger()
                self.boundaries.append(self.world.writer.end)
                return what == "commit"
            case ("recompute", int(back)):
                self.cut = self._ahead(back)
                self.world.recompute(self.cut)
            case ("extend", int(back)):
                extend(self.world, self.cut, self._ahead(back), self.release)
                self.cut = self._ahead(back)
            case ("mend", int(hour)):
                mend(self.world, self.cut, (NOON + timedelta(hours=hour), NOON + timedelta(hours=hour + 1)))
            case ("compact",):
                self.world.compact()
                self.boundaries = [self.cut, self.world.writer.end]
            case ("promote",):
                self.cut = self.world.writer.end
                self.release += 1
                adopt(self.world, self.cut, self.release)
                self.boundaries = [self.cut]
        return True

    def _ahead(self, back: int) -> Position:
        ahead = [boundary for boundary in self.boundaries if self.cut.at_or_below(boundary)]
        return ahead[max(0, len(ahead) - 1 - back)]


def extend(world: World, start: Position, cut: Position, release: int) -> None:
    """Publish what lies from one cut to the next as one more part of each view, as an incremental recompute does."""
    if start == cut:
        return
    world._version += 1
    folded, whole = world.fold(start, cut), world.fold(LOG_START, cut)
    states = {name: from_ipc(folded.partials[view.fingerprint]) for name, view in world.live.views.items()}
    parts = {name: BatchPart(world._version, write(world, name, some), cut) for name, some in states.items()}

    def derive(parent: Publication | None) -> Publication:
        assert parent is not None
        return replace(
            parent,
            kind="recompute",
            release=release,
            cuts={SOURCE: cut},
            views={name: replace(view, parts=(*view.parts, parts[name])) for name, view in parent.views.items()},
            rejected={name: dict(whole.rejected.get(view.fingerprint, {})) for name, view in parent.views.items()},
            newest={SOURCE: whole.newest} if whole.newest else {},
            counts={SOURCE: whole.counts},
            maxima={SOURCE: whole.maxima},
            watermarks={} if world.watermark is None else {SOURCE: world.watermark},
        )

    assert Publications(world.tables).publish(derive)


def mend(world: World, cut: Position, windows: tuple[datetime, datetime], names: Sequence[str] = SLICED) -> None:
    """Publish some windows anew, as a recompute of a range of time does."""
    world._version += 1
    folded = world.fold(LOG_START, cut)
    parts = {}
    for name in names:
        states = starting_within(from_ipc(folded.partials[world.live.views[name].fingerprint]), windows)
        parts[name] = BatchPart(world._version, write(world, name, states), cut, windows)

    def derive(parent: Publication | None) -> Publication:
        assert parent is not None
        views = {
            name: replace(view, parts=(*view.parts, *([parts[name]] if name in parts else [])))
            for name, view in parent.views.items()
        }
        return replace(parent, kind="recompute", views=views)

    assert Publications(world.tables).publish(derive)


def write(world: World, name: str, states: pa.Table) -> int:
    """Append a batch version of a view; how many rows it has."""
    rows = states.append_column("batch_version", pa.array([world._version] * len(states), pa.int64()))
    address = world.tables.view(name, world.live.views[name].fingerprint)
    write_deltalake(address, rows, mode="append", partition_by=["batch_version"])
    return len(rows)


def adopt(world: World, cut: Position, release: int) -> None:
    """The same definitions as the next release, all of the log below its cut, and from there on a realtime table of its own."""
    old = Releases(world.tables).load(release - 1)
    files = {**old.files, "tandem.toml": b"# changed" * release}
    stored = Releases(world.tables).store(files, sources=old.sources, views=old.views, by="test", at=NOON)
    assert stored.number == release
    handle = commit_files.open_or_create(world.tables, release, SOURCE)
    if cut != LOG_START:
        delta_tables.conditional_append(handle, commit_files.to_rows(Commit(LOG_START, cut, 1, "bridge", at=NOON, by="test")))
    world._version += 1
    parts = {name: BatchPart(world._version, world.write_version(name, world._version, cut), cut) for name in world.project.views}
    whole = world.fold(LOG_START, cut)

    def derive(parent: Publication | None) -> Publication:
        assert parent is not None
        views = {name: replace(view, parts=(parts[name],)) for name, view in parent.views.items()}
        rejected = {name: dict(whole.rejected.get(view.fingerprint, {})) for name, view in parent.views.items()}
        watermarks = {} if world.watermark is None else {SOURCE: world.watermark}
        return replace(
            parent, kind="promote", release=release, cuts={SOURCE: cut}, views=views, rejected=rejected, watermarks=watermarks
        )

    assert Publications(world.tables).publish(derive)
    world.writer = Writer.claim(world.tables, release, SOURCE, by="test", at=NOON)


def check(world: World, connection: Connection, oracles: Mapping[str, Any] = ORACLES) -> None:
    reader, counted = Reader(world.tables), world.values(LOG_START, world.writer.end)
    now = connection.snapshot()
    for name in world.project.every_view:
        view, expected = now.view(name), reader.answer(name)
        assert view.memory is not None
        found = view.scan()
        assert isinstance(expected, Value | Absent)
        assert type(found) is type(expected)
        assert found.rows() == expected.rows()
        assert (found.total, found.provenance) == (expected.total, expected.provenance)
        assert found.to_arrow().schema.equals(expected.table.schema, check_metadata=True)
        if name in oracles:
            assert oracle.unlabelled(found.rows()) == oracle.unlabelled(oracles[name](counted))
        first = view.scan(limit=1)
        assert (first.rows(), first.total) == (expected.rows()[:1], expected.total)
        keys = [dict(zip(view.view.keys, key, strict=True)) for key in asked(view.view.keys, expected)]
        for key in keys[:2]:
            assert view.scan(key).rows() == given_rows(reader, name, key)
        if view.view.keys:
            in_all = view.lookup(keys[:2]).rows()
            assert sorted(map(repr, in_all)) == sorted(repr(row) for key in keys[:2] for row in given_rows(reader, name, key))
        if name not in IN_ORDER and isinstance(expected, Value):
            starts = expected.table["window_start"].to_pylist()
            every = asked(view.view.keys, expected, distinct=False)
            for values, start, row in list(zip(every, starts, expected.rows(), strict=True))[:5]:
                assert view.get(dict(zip(view.view.keys, values, strict=True)), window=start) == row


def asked(keys: Any, answer: Value | Absent, *, distinct: bool = True) -> list[tuple[Any, ...]]:
    """The keys of an answer's rows."""
    found = [tuple(row[name] for name in keys) for row in answer.table.to_pylist()]
    return list(dict.fromkeys(found)) if distinct else found


def given_rows(reader: Reader, name: str, key: dict[str, Any]) -> list[dict[str, Any]]:
    answer = reader.answer(name, keys=key)
    assert isinstance(answer, Value | Absent)
    return answer.rows()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return nine_hits(tmp_path)


def test_a_view_that_outgrows_memory_is_read_from_its_files_with_the_same_answers(world: World) -> None:
    world.recompute(position(6))
    small, large = (Connection(Store(world.tables, 1, memory)).view("per_page").now() for memory in (10, MEMORY))
    assert small.memory is None
    assert large.memory is not None
    for question in (
        lambda view: view.scan(),
        lambda view: view.scan({"page": "/"}),
        lambda view: view.lookup(["/", "/nowhere", None]),
        lambda view: view.lookup(["/nowhere"]),
        lambda view: view.scan(between=(NOON, None), limit=1),
    ):
        ours, theirs = question(small), question(large)
        assert (type(ours), ours.rows(), ours.provenance) == (type(theirs), theirs.rows(), theirs.provenance)
    for page in ("/", "/nowhere"):
        assert small.get(page=page, window=NOON) == large.get(page=page, window=NOON)


@pytest.mark.parametrize("looks", [(), (3,), (1, 4)])
def test_commits_compacted_across_a_readers_position_count_once(world: World, looks: tuple[int, ...]) -> None:
    connection = Connection(Store(world.tables, 1))
    before = connection.view("per_page").now()
    assert before.memory is not None
    for number in range(6):
        world.append(1, hit(f"/{number}", number), hit("/", 1))
        world.trigger()
        if number in looks:
            connection.refresh()
    assert world.compact()
    connection.refresh()
    check(world, connection)
    assert before.scan().rows() != connection.view("per_page").rows()


SAME = b'"n": count(), "bytes": total("bytes"), "largest": maximum("bytes")'


@pytest.mark.parametrize(
    "measures",
    [
        pytest.param(SAME, id="same"),
        pytest.param(b'"bytes": total("bytes"), "n": count(), "largest": maximum("bytes")', id="in another order"),
        pytest.param(b'"n": count(), "bytes": total("bytes"), "largest": maximum("-bytes")', id="of another meaning"),
    ],
)
def test_of_another_release_nothing_is_reused_that_is_not_the_same(world: World, measures: bytes) -> None:
    """Releases share the batch views that mean the same, also where measures are listed in another order.

    Their realtime views of one range may differ: one speed layer may have counted a late duplicate that another had dropped. A
    changed view may have batch versions of the same numbers and sizes.
    """
    batch = world.recompute(position(3))
    connection = Connection(Store(world.tables, 1))
    before = connection.view("per_page").rows()
    definitions = Releases(world.tables).load(1).files["definitions.py"]
    assert SAME in definitions
    files = {"tandem.toml": b"# changed", "definitions.py": definitions.replace(SAME, measures)}
    world.project = load_files(files)
    fingerprints = {name: fingerprint(view) for name, view in world.project.views.items()}
    views = {name: replace(batch.views[name], fingerprint=fingerprints[name]) for name in fingerprints}
    world.live = replace(world.live, views=views)
    if views != batch.views:
        assert world.write_version("per_page", world._version, position(3)) == batch.views["per_page"].rows
    sources = Releases(world.tables).load(1).sources
    release = Releases(world.tables).store(files, sources=sources, views=fingerprints, by="test", at=NOON).number
    cut_decision.begin(world.tables, release, SOURCE, position(3), by="test", at=NOON)
    world.writer = Writer.claim(world.tables, release, SOURCE, by="test", at=NOON)
    world.log[0][8] = hit("/", 90)
    world.trigger()
    assert Publications(world.tables).publish(lambda live: live and replace(live, kind="promote", release=release, views=views))
    connection.refresh()
    check(world, connection, oracles={})
    assert connection.view("per_page").rows() != before


def test_the_view_that_was_asked_longest_ago_makes_room(world: World) -> None:
    probe, names = Connection(Store(world.tables, 1)), ("per_page", "inverse", "ever")
    held = [probe.view(name).now().memory for name in names]
    room = sum(one.answers.held.nbytes for one in held if one is not None) - 1
    for asked, left in (
        (("per_page", "inverse", "ever"), {"inverse", "ever"}),
        (("per_page", "inverse", "per_page", "ever"), {"per_page", "ever"}),
    ):
        store = Store(world.tables, 1, room)
        for name in asked:
            assert Connection(store).view(name).now().memory is not None
        assert store._held.keys() == store.pinned().views.keys() == left


def test_a_view_that_outgrew_memory_is_tried_again_with_its_next_batch_view(world: World) -> None:
    store = Store(world.tables, 1, memory=10)
    connection = Connection(store)
    assert connection.view("per_page").now().memory is None
    assert store.outgrown == {"per_page"}
    store.memory = MEMORY
    world.recompute(position(6))
    connection.refresh()
    assert connection.view("per_page").now().memory is not None
    assert not store.outgrown


def test_a_view_without_files_never_gets_another_views_answers(world: World) -> None:
    """A look advances the views in memory. A view that cannot be read is tried again, and the others go on."""
    connection = Connection(Store(world.tables, 1))
    for name in ("per_page", "ever"):
        assert connection.view(name).now().memory is not None
    live = world.recompute(position(6))
    for file in Path(live.views["ever"].address(world.tables, "ever")).rglob("*.parquet"):
        file.unlink()
    connection.refresh()
    assert [*connection.store.pinned().views] == ["per_page"]
    assert connection.view("per_page").now().memory is not None
    with pytest.raises((ReadFailed, Unreadable)):
        connection.view("ever").now().scan()


def test_without_states_all_rows_are_those_of_any_answer(tmp_path: Path) -> None:
    """Estimates too: two merges of the same sketches differ, so the slices of a window are merged once, for all answers."""
    quantiles = MORE.replace("import hopping,", "import approx_quantiles, hopping,").replace(
        "every=two), measures=n)", 'every=two), measures=n | {"q": approx_quantiles("bytes", (0.5,))})'
    )
    world = World(tmp_path, definitions=quantiles)
    for start in range(0, 3000, 1000):
        world.append(0, *(hit("/", n % 977, minute=n % 11) for n in range(start, start + 1000)))
        world.trigger()
    view = Connection(Store(world.tables, 1)).view("hops").now()
    assert view.memory is not None
    answers = view.memory.answers
    assert answers.with_states({}).equals(answers.select(select(view.view, {}, ALWAYS)).table)


def test_a_commit_is_merged_only_with_the_units_that_it_touches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.append(1, *(hit(f"/{n}", n) for n in range(1, 200)))
    world.trigger()
    world.recompute(world.end)
    connection = Connection(Store(world.tables, 1))
    connection.view("per_page").now()
    merged: list[int] = []

    def counted(view: View, some: list[pa.Table]) -> pa.Table:
        merged.append(sum(map(len, some)))
        return merge_states(view, some)

    monkeypatch.setattr(stack, "merge_states", counted)
    world.append(0, hit("/7", 1))
    world.trigger()
    connection.refresh()
    assert merged == [2]
    row = connection.view("per_page").get(page="/7", window=NOON)
    assert row is not None
    assert (row["n"], row["bytes"]) == (2, 8)


def test_a_merged_session_no_longer_exists(tmp_path: Path) -> None:
    world = World(tmp_path, definitions=MORE)
    world.append(0, hit("/a", 1, minute=0), hit("/a", 1, minute=4))
    world.trigger()
    world.recompute(world.end)
    connection = Connection(Store(world.tables, 1))
    view, later = connection.view("visits"), NOON + timedelta(minutes=4)
    apart = view.get(page="/a", odd=True, window=later)
    assert apart is not None
    assert apart["n"] == 1
    world.append(1, hit("/a", 1, minute=2))
    world.trigger()
    connection.refresh()
    assert view.get(page="/a", odd=True, window=later) is None
    joined = view.get(page="/a", odd=True, window=NOON)
    assert joined is not None
    assert joined["n"] == 3
