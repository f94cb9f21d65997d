"""Look-ups in tables of a source are, at any pair of cuts and once the touched windows are folded again, nested loops.

As in tests/together/test_rollups_agree.py the cases of a run share one log of each source, in which each is a value of the key
`trial`. Here each case has its own time, too.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from itertools import accumulate, pairwise
from random import Random
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import settings

from tandem import Event, Source, Table, View, count, rollup, total, tumbling
from tandem.views import oracle
from tandem.views.composite.dated import DatedView, Earlier
from tandem.views.composite.table import looked_up, lookup_kinds
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.instant import microseconds
from tandem.views.kernel import kernel
from tandem.views.kernel.kernel import Partial, deduplicate, merge, merge_states, partial, present, roll
from tandem.views.lookup.lookup import Lookup
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.view import bind
from tests.samples import EPOCH, GENERATIONS, LONGER, table
from tests.together.lookup_model import LookupModel
from tests.together.model import Chain
from tests.together.split_logs import split_chain, split_partials

CASES = 10_000 if LONGER else 1_000
SECOND = timedelta(seconds=1)
SPAN = 100 * SECOND
"""The time of a case; windows are 10 s long."""


class Fee(Event):
    id: int
    trial: int
    at: datetime
    city: str | None
    cents: int | None
    over: bool | None


class Trip(Event):
    id: int
    trial: int
    at: datetime
    town: str | None
    items: int


FEES = Source(topic="fees", event=Fee, event_time="at", identity=("id",), name="fees")
TRIPS = Source(topic="trips", event=Trip, event_time="at", identity=("id",), name="trips")
KEY = {"trial": "trial", "city": "upper(city)"}
BY_TIME = Table(FEES, key=KEY, gone="over", name="fee_of")
BY_LOG = Table(FEES, key=KEY, gone="over", order="log", fields={"cents": "cents"}, name="fee_of")
STAYING = Table(FEES, key=KEY, fields={"cents": "cents"}, name="fee_of")
FINDS: Mapping[str, Any] = {"trial": "trial", "city": "substr(town, 1, 4 + 0 // (items - 13))"}


def looking(lookup: Lookup, where: str | None = None) -> View:
    return View(
        TRIPS,
        keys={"trial": "trial"},
        window=tumbling(seconds=10),
        lookup={"f": lookup},
        where=where,
        measures={
            "n": count(),
            "missing": count(filter="f IS NULL"),
            "revenue": total("items * f.cents"),
            "fees": total("f.cents"),
        },
        name="trips_by",
    )


VIEWS: Mapping[str, View] = {
    "by time": looking(BY_TIME.as_of(**FINDS)),
    "by log": looking(BY_LOG.as_of(**FINDS, missing={"cents": "7"})),
    "rejecting": looking(STAYING.as_of(**FINDS, missing="reject"), where="items <> 5 AND f.cents IS DISTINCT FROM 3"),
    "now": looking(BY_TIME.now(**FINDS)),
    "now by log": looking(BY_LOG.now(**FINDS, missing="reject")),
}


def model_of(name: str) -> LookupModel:
    return LookupModel(
        key_of_event=lambda trip: (trip["trial"], trip["town"]),
        key_of_version=lambda fee: (fee["trial"], fee["city"] and fee["city"].upper()),
        gone=lambda fee: name != "rejecting" and fee["over"] is True,
        order="log" if "log" in name else "time",
        how="now" if "now" in name else "as_of",
    )


def moment(dice: Random, case: int) -> datetime:
    return EPOCH + case * SPAN + dice.choice((0, 1, 2, 9, 10, 11, dice.randrange(40))) * SECOND


def fees_of(dice: Random, case: int) -> list[list[dict[str, Any]]]:
    """Two partitions of a topic and one of its next generation, with few keys and times, some fees twice."""
    fees = [
        {
            "id": case * 20 + number,
            "trial": case,
            "at": moment(dice, case),
            "city": dice.choice(("Oslo", "oslo", "Rome", None)),
            "cents": dice.choice((None, 0, 3, dice.randrange(100))),
            "over": dice.choice((True, False, False, None)),
        }
        for number in range(dice.randrange(1, 9))
    ]
    return [[dice.choice(fees) for _ in range(dice.randrange(5))] for _ in range(3)]


def trips_of(dice: Random, case: int) -> list[list[dict[str, Any]]]:
    """Two partitions of trips to towns with fees and without, some twice."""
    trips = [
        {
            "id": case * 20 + number,
            "trial": case,
            "at": moment(dice, case),
            "town": dice.choice(("OSLO", "OSLO", "ROME", "PARIS", None)),
            "items": dice.choice((1, 2, 5, 13)),
        }
        for number in range(dice.randrange(1, 9))
    ]
    return [[dice.choice(trips) for _ in range(dice.randrange(6))] for _ in range(2)]


@cache
def chains(seed: int) -> tuple[Chain, Chain]:
    fees = split_chain(seed, CASES, fees_of, lambda half: GENERATIONS[half // 2])
    return fees, split_chain(seed + 1, CASES, trips_of, lambda _: GENERATIONS[0])


def events_of(chain: Chain) -> list[pa.Table]:
    """The trips that count: those below the cut, then those of each micro-batch."""
    before, pieces = table([], source=TRIPS), []
    for start, end in pairwise(({}, chain.cut, *chain.ends)):
        read = table([dict(row) for row in chain.between(start, end)], source=TRIPS)
        pieces.append(deduplicate(TRIPS, read, before, generations=GENERATIONS).events)
        before = pa.concat_tables([before, pieces[-1]])
    return pieces


def placed(fee: Mapping[str, Any]) -> dict[str, Any]:
    return {**fee, "place": (GENERATIONS.index(fee["_topic_id"]), fee["_partition"], fee["_offset"])}


def by_nested_loops(
    name: str, trips: Sequence[Mapping[str, Any]], fees: Sequence[Mapping[str, Any]], drawn: Counter[str]
) -> tuple[dict[Any, dict[str, Any]], Counter[str]]:
    """The rows by trial and start of the window, and the rejected trips by reason."""
    model, of_trial = model_of(name), defaultdict[int, list[dict[str, Any]]](list)
    for fee in fees:
        of_trial[fee["trial"]].append(placed(fee))
    groups, rejected = defaultdict[Any, list[Any]](list), Counter[str]()
    for trip in trips:
        if name == "rejecting" and trip["items"] == 5:
            drawn["left out"] += 1
            if model.row(trip, of_trial[trip["trial"]]) is not None:
                continue
        if trip["items"] == 13:  # 0 // 0 fails, and so does the key
            rejected["expression"] += 1
            continue
        row = model.row(trip, of_trial[trip["trial"]])
        drawn["matched" if row else "unmatched"] += 1
        if name == "rejecting" and row is not None and row["cents"] == 3:
            drawn["left out by what was found"] += 1
            continue
        if row is None and name in ("rejecting", "now by log"):
            rejected["unmatched"] += 1
            continue
        cents = 7 if row is None and name == "by log" else row and row["cents"]
        start = EPOCH + (trip["at"] - EPOCH) // (10 * SECOND) * 10 * SECOND
        groups[trip["trial"], start].append((trip["items"], row is None and name != "by log", cents))
    return {
        key: {
            "n": len(rows),
            "missing": sum(lacks for _, lacks, _ in rows),
            "revenue": added([items * cents for items, _, cents in rows if cents is not None]),
            "fees": added([cents for _, _, cents in rows if cents is not None]),
        }
        for key, rows in groups.items()
    }, rejected


def added(values: list[int]) -> int | None:
    return sum(values) if values else None


def rows(view: View, states: Partial) -> dict[Any, dict[str, Any]]:
    answer = present(view, states).to_pylist()
    return {(row["trial"], row["window_start"]): {name: row[name] for name in view.measures} for row in answer}


def by_trial(rows: pa.Table) -> list[pa.Table]:
    numbers = rows["trial"].to_numpy()
    bounds = [int(bound) for bound in numbers.searchsorted(range(CASES + 1))]
    return [rows.slice(start, end - start) for start, end in pairwise(bounds)]


def touched_windows(view: View, late: pa.Table, versions: pa.Table, ends: Mapping[int, int]) -> set[int]:
    """The starts of windows in the ranges that `touched` names, for each case by itself."""
    (of,), (how,) = looked_up(view).values(), lookup_kinds(view).values()
    starts, changed, every = set[int](), by_trial(late), by_trial(versions)
    for trial, until in ends.items():
        first = microseconds(EPOCH + trial * SPAN)
        for start, end in kernel.touched(of, every[trial], changed[trial], until, how=how):
            starts |= {*range(max(start, first) // 10**7 * 10**7, min(end, until + 1), 10**7)}
    return starts


def inside(times: pa.ChunkedArray, starts: set[int]) -> pa.ChunkedArray:
    windows = pc.multiply(pc.divide(times.cast(pa.int64()), 10**7), 10**7)
    return pc.is_in(windows, value_set=pa.array(sorted(starts), pa.int64()))


@pytest.mark.each_run("by time", "now by log")
@pytest.mark.parametrize("name", VIEWS)
def test_look_ups_in_tables_at_any_cuts_are_nested_loops(name: str) -> None:
    seed = 7 if settings().derandomize else Random().getrandbits(32)
    view, (fees, trips), drawn = VIEWS[name], chains(seed), Counter[str]()
    ((versions_name, of),) = looked_up(view).items()
    folds = split_partials(of, fees)
    known = [merge_states(of, [fold.states for fold in folds[: number + 1]]) for number in range(3)]
    read = [{versions_name: kernel.versions(of, states)} for states in known]
    pieces = events_of(trips)

    def folded(number: int, versions: int) -> Partial:
        return partial(view, pieces[number], EMPTY, versions=read[versions])

    counted_fees = [*accumulate(fees.counted(), lambda left, right: left + right)]
    counted_trips = [*accumulate(trips.counted(), lambda left, right: left + right)]
    for at in range(3):  # batch alone at any pair of cuts
        expected, rejected = by_nested_loops(name, counted_trips[at], counted_fees[at], Counter())
        whole = merge(view, [folded(number, at) for number in range(at + 1)])
        assert rows(view, whole) == expected, f"{seed=} {at=}"
        assert Counter(whole.rejected) == rejected, f"{seed=} {at=}"

    # Batch at the first cuts; micro-batches with what was known; late fees; then the touched windows once more.
    expected, rejected = by_nested_loops(name, counted_trips[2], counted_fees[2], drawn)
    early = merge(view, [folded(0, 0), folded(1, 0), folded(2, 1)])
    late = merge_states(of, [folds[1].states, folds[2].states])
    late = late.take(pc.sort_indices(late, [("trial", "ascending")])).select([*KEY, "valid_from"])
    ends = dict[int, int]()
    for trip in counted_trips[2]:
        ends[trip["trial"]] = max(ends.get(trip["trial"], 0), microseconds(trip["at"]))
    starts = touched_windows(view, late, read[2][versions_name], ends)
    keeps = early.states.filter(pc.invert(inside(early.states["window_start"], starts)))
    events = pa.concat_tables(pieces)
    again = partial(view, events.filter(inside(events["at"], starts)), EMPTY, versions=read[2])
    repaired = merge(view, [Partial(keeps), again])
    assert rows(view, repaired) == expected, f"{seed=}"
    untouched = {key: row for key, row in expected.items() if microseconds(key[1]) not in starts}
    assert rows(view, Partial(keeps)) == untouched, f"{seed=}"
    drawn["windows"], drawn["touched windows"] = len(expected), len(expected) - len(untouched)
    at_once = rows(view, early)
    drawn["changed windows"] = sum(at_once.get(key) != row for key, row in expected.items())
    drawn["versions"] = read[2][versions_name].num_rows
    passed = dict[int, datetime]()
    for trip in counted_trips[0]:
        passed[trip["trial"]] = max(passed.get(trip["trial"], EPOCH), trip["at"])
    drawn["late versions"] = sum(fee["at"] <= passed.get(fee["trial"], EPOCH) for fee in counted_fees[2][len(counted_fees[0]) :])
    print(f"{name}: {CASES} cases: {dict(drawn)}")  # noqa: T201 - how many hard cases were drawn
    assert drawn["late versions"] >= drawn["versions"] / 5
    assert all(drawn[case] > CASES / 10 for case in ("matched", "unmatched", "changed windows"))
    assert "now" in name or drawn["touched windows"] < drawn["windows"]

    trials = rollup(view, keys=("trial",), name="trials")
    rolled = merge(trials, [Partial(roll(trials, each.states)) for each in (Partial(keeps), again)])
    assert sum(row["n"] for row in present(trials, rolled).to_pylist()) == sum(row["n"] for row in expected.values())


@pytest.mark.parametrize("name", VIEWS)
def test_the_oracle_of_verify_finds_the_same(name: str) -> None:
    view, (fees, trips) = VIEWS[name], chains(7)
    ((versions_name, of),) = looked_up(view).items()
    versions = {versions_name: kernel.versions(of, merge_states(of, [fold.states for fold in split_partials(of, fees)]))}
    events = events_of(trips)[0].slice(0, 300)
    folded = partial(view, events, EMPTY, versions=versions)
    groups, refused = oracle.grouped(view, events, versions)
    differing = {each.measure: each.differ for each in oracle.compare(view, present(view, folded), groups)}
    assert differing == dict.fromkeys(view.measures, 0)
    assert folded.rejected == dict(refused)


PRICED = View(TRIPS, lookup={"f": BY_TIME.as_of(**FINDS)}, measures={"n": count()}, name="priced")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: BY_TIME.as_of(trial="trial"), "look-up in table fee_of: its keys are trial, city; write as_of("),
        (lambda: BY_TIME.now(trial="trial", town="town"), "its keys are trial, city; write now(trial='...', city='...')"),
        (lambda: BY_TIME.now(**FINDS, missing=cast("Any", "drop")), "missing='drop'; expected 'null', 'reject' or constants"),
        (lambda: BY_TIME.now(**FINDS, missing={"fee": "0"}), "missing 'fee': table fee_of has no such column; columns: "),
        (lambda: BY_TIME.now(**FINDS, missing={"cents": "'x'"}), "missing 'cents': \"'x'\" is not a constant of type int64: "),
        (lambda: BY_TIME.now(**FINDS, missing={"cents": "_"}), "missing 'cents': '_' is not a constant"),
        (lambda: BY_TIME.now(trial="town", city="town"), "'town' is of type VARCHAR; trial of table fee_of is of type BIGINT"),
        (lambda: BY_TIME.now(trial="trial", city=cast("Any", 1)), "lookup 'f': 1 is not a text"),
        (lambda: Table(TRIPS, key={"trial": "trial"}).now(trial="trial"), "the table is a table of the view's own source"),
    ],
)  # fmt: skip
def test_a_look_up_that_cannot_be_is_refused_in_a_sentence(make: Callable[[], Lookup], sentence: str) -> None:
    with pytest.raises(DefinitionError) as error:
        bind(replace(PRICED, lookup={"f": make()}))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_views_that_cannot_follow_a_table_are_refused() -> None:
    sources = replace(TRIPS, topic="others", name="others")
    both = View((TRIPS, sources), lookup=PRICED.lookup, measures={"n": count()}, name="both")
    kept = replace(PRICED, window=tumbling(hours=1), keep=timedelta(days=1))
    dated = DatedView(TRIPS, {}, tumbling(hours=1), {"n": count()}, earlier=(Earlier(kept, EPOCH),), name="dated")
    for view, what in (
        (both, "several sources"),
        (kept, "a keep"),
        (replace(dated, lookup=PRICED.lookup), "earlier definitions"),
    ):
        with pytest.raises(DefinitionError, match=f"a view with {what} does not look up in a table of a source yet"):
            bind(view)


def test_a_fold_without_the_versions_fails_and_the_fingerprint_has_the_table() -> None:
    with pytest.raises(KeyError, match="look-up 'f' reads fee_of_versions; there are versions of"):
        partial(PRICED, events_of(chains(7)[1])[0], EMPTY)
    other = Table(FEES, key=KEY, gone="coalesce(over, true)", name="fee_of")
    changed = [
        replace(PRICED, lookup={"f": lookup})
        for lookup in (other.as_of(**FINDS), BY_TIME.now(**FINDS), BY_TIME.as_of(**FINDS, missing="reject"))
    ]
    assert len({fingerprint(view) for view in (PRICED, *changed)}) == 4
    assert lookup_kinds(changed[1]) == {"fee_of_versions": "now"}
