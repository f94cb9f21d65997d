"""Row groups and files that a selection leaves out have no selected states, whatever the types of keys."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.batch.fold.write_states import write_states
from tandem.ledger.delta.location import Location
from tandem.ledger.files.group_bounds import file_bounds
from tandem.ledger.hash_slots import slots_in
from tandem.ledger.stored_states import row_groups
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Value
from tandem.serving.read.selection import ALWAYS, Among, Selection, select
from tandem.serving.read.states import ReadCache, groups_for, slots_for
from tandem.views.measures.count import count
from tandem.views.view import View, state_schema
from tandem.views.windows import all_time, tumbling
from tests.serving.read.test_selection_names_whole_states import readings
from tests.serving.world import DEFINITIONS, World, hit, position

EIGHT = datetime(2026, 11, 1, 8, tzinfo=UTC)
KEYS: dict[str, list[Any]] = {
    "at": [EIGHT, EIGHT + timedelta(microseconds=1)],
    "day": [date(1, 1, 1), date(2026, 11, 1)],
    "site": ["", "a", "ab", "ä", "🙂", "x" * 5000],
    "level": [-(2**63), -1, 0, 2**63 - 1],
    "ratio": [-1.5, 0.0, 0.5],
    "price": [Decimal("-0.10"), Decimal("7.00")],
    "good": [False, True],
    "raw": [b"", b"\0", b"\xff", b"a"],
}
keyed = st.lists(st.sampled_from([*KEYS]), min_size=1, max_size=3, unique=True)
starts = st.integers(0, 3).map(lambda hour: EIGHT + timedelta(hours=hour))


@st.composite
def worlds(draw: Any) -> tuple[View, pa.Table, Selection]:
    """A view, states of it, and a selection of them."""
    names = draw(keyed)
    timed = draw(st.booleans())
    window = tumbling(hours=1) if timed else all_time()
    view = View(source=readings, keys={name: f'"{name}"' for name in names}, window=window, measures={"n": count()}, name="v")
    key = st.tuples(*(st.none() | st.sampled_from(KEYS[name]) for name in names))
    rows = draw(st.lists(st.tuples(key, starts), max_size=20, unique=True))
    states = pa.Table.from_pylist([row(names, *each, timed=timed) for each in rows], state_schema(view))
    between = draw(st.sampled_from([ALWAYS, (EIGHT, EIGHT + timedelta(microseconds=1)), (EIGHT, None)])) if timed else ALWAYS
    wanted = dict(zip(names, draw(key), strict=True))
    some = {name: wanted[name] for name in names[: draw(st.integers(0, len(names)))]}
    selection = select(view, some, between)
    if not some and draw(st.booleans()):
        types = {name: state_schema(view).field(name).type for name in names}
        among = Among(types, frozenset(draw(st.sets(key, max_size=3))))
        selection = Selection(start=selection.start, end=selection.end, among=among)
    return view, states, selection


def row(names: Sequence[str], key: Sequence[Any], start: datetime, *, timed: bool) -> dict[str, Any]:
    window = {"window_start": start, "window_end": start + timedelta(hours=1)} if timed else {}
    return {**dict(zip(names, key, strict=True)), **window, "n": 1}


def chosen(selection: Selection, states: pa.Table) -> list[str]:
    """The selected states: the filter also takes some of other keys."""
    found = selection.filter(states)
    return [repr(each) for each in (found if selection.among is None else selection.among.rows(found)).to_pylist()]


@given(worlds(), st.integers(1, 5), st.integers(1, 4))
def test_what_is_left_out_has_no_selected_states(drawn: tuple[View, pa.Table, Selection], rows: int, group_rows: int) -> None:
    view, states, selection = drawn
    expected, found = sorted(chosen(selection, states)), list[str]()
    slots = slots_for(view, selection)
    with TemporaryDirectory() as folder:
        for file in write_states(Location(folder), view, states, 1, rows=rows, group_rows=group_rows):
            opened = pq.ParquetFile(Path(folder, file.path))
            needed = groups_for(file_bounds(opened.metadata, [*view.keys, "window_start"]), selection)
            if slots is None or any(slot in slots_in(file.path) for slot in slots):
                found += chosen(selection, row_groups(opened, needed, state_schema(view)))
    assert sorted(found) == expected


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Forty pages, each once, in files and row groups of a few."""
    made = World(
        tmp_path,
        file_rows=3,
        definitions=DEFINITIONS.replace("inverse)", "inverse, pages)").replace(
            "VIEWS = ",
            'pages = View(source=hits, keys={"page": "page"}, measures={"n": count(), "bytes": total("bytes")})\nVIEWS = ',
        ),
    )
    made.append(0, *(hit(f"/{number:02}", number) for number in range(40)), hit(None, 7))
    made.trigger()
    made.recompute(position(41))
    return made


def asked(reader: Reader, page: str | None) -> Any:
    found = reader.answer("pages", keys={"page": page})
    return found.rows()[0]["bytes"] if isinstance(found, Value) else None


def test_a_cold_look_up_reads_one_row_group_of_one_file(world: World) -> None:
    reader = Reader(world.tables, cache=ReadCache(0))
    reads = reader.cache.reads
    for number in range(40):
        before = reads.groups, reads.files
        assert asked(reader, f"/{number:02}") == number
        assert (reads.groups, reads.files) == (before[0] + 1, before[1] + 1)
    assert asked(reader, None) == 7
    assert (reads.groups, reads.files) == (41, 41)


def test_a_second_version_costs_one_more_row_group(world: World) -> None:
    world.append(1, hit("/05", 100))
    world.trigger()
    world.recompute(position(41, 1))
    reader = Reader(world.tables, cache=ReadCache(0))
    assert asked(reader, "/05") == 105
    assert reader.cache.reads.groups == 1


def test_a_hot_key_is_not_read_again(world: World) -> None:
    reader = Reader(world.tables, cache=ReadCache(1 << 20))
    reader.cache.room = 100_000  # less than four times the part
    assert [asked(reader, "/07") for _ in range(3)] == [7, 7, 7]
    before = reader.cache.reads.groups
    assert before == 1
    world.append(0, hit("/07", 1))
    world.trigger()
    world.recompute(position(42))
    reader.refresh()
    assert asked(reader, "/07") == 8
    assert reader.cache.reads.groups == before + 1


def test_what_is_kept_stays_within_its_room(world: World) -> None:
    reader = Reader(world.tables, cache=ReadCache(30_000))
    for _ in range(2):
        assert [asked(reader, f"/{number:02}") for number in range(40)] == [*range(40)]
    assert reader.cache.nbytes <= 30_000
