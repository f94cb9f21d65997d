"""A release that is not live answers as it does after its promotion, and as the plain oracle does: all layers, any log."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish import promotion
from tandem.ledger.publish.if_promoted import IfPromoted, ReleaseState
from tandem.ledger.publish.promotion import NotReady
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.standing import StandingReleases
from tandem.serving.connection import Connection
from tandem.serving.memory.store import Store
from tandem.serving.read.merged_layers import Reader, UnknownView
from tandem.serving.read.outcome import Absent, Failed, Value
from tandem.serving.read.snapshot_follower import SnapshotFollower
from tests.samples import just
from tests.serving.two_releases import CHANGES, DAYS, applied, asked, build, differing, edited, promote, ranges_of
from tests.serving.world import NOON, World, hit, position

LAYERS = ("batch", "speed", "merged")

values = st.lists(
    st.builds(hit, st.sampled_from(["/", "/a", None]), st.integers(0, 9), minute=st.integers(-90, 90)) | st.just(b"{broken"),
    min_size=1,
    max_size=5,
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 1), values),
        st.tuples(st.sampled_from(["live", "next"]), st.just("trigger"), st.just(0)),
        st.tuples(st.sampled_from(["live", "next"]), st.just("recompute"), st.integers(0, 3)),
    ),
    min_size=4,
    max_size=12,
)


class Side:
    """A release, the boundaries of its commits, and its cut."""

    def __init__(self, world: World, cut: Position) -> None:
        self.world, self.cut, self.boundaries, self.built = world, cut, [cut], world.live.release == 1

    def trigger(self) -> None:
        if self.world.end != self.world.writer.end:
            self.world.trigger()
            self.boundaries.append(self.world.writer.end)

    def recompute(self, back: int) -> None:
        ahead = [boundary for boundary in self.boundaries if self.cut.at_or_below(boundary)]
        self.cut = ahead[max(0, len(ahead) - 1 - back)]
        live = Publications(self.world.tables).latest()
        if live is not None and live.release == self.world.live.release:
            self.world.recompute(self.cut)
        else:
            build(self.world, self.cut)
        self.built = True


@just(40, quick=3)
@given(
    before=st.lists(values, max_size=3),
    back=st.integers(0, 2),
    changes=st.lists(st.sampled_from([*CHANGES]), min_size=1, max_size=2, unique=True),
    steps=steps,
)
def test_a_release_answers_as_after_its_promotion_and_as_the_oracle(
    before: list[list[bytes]], back: int, changes: list[str], steps: list[tuple[Any, ...]]
) -> None:
    with TemporaryDirectory() as folder:
        live = Side(World(Path(folder)), LOG_START)
        for number, some in enumerate(before):
            live.world.append(number % 2, *some)
            live.trigger()
        live.recompute(back)
        following = Side(applied(live.world, edited(*changes)), live.cut)
        reader = Reader(live.world.tables, asked=asked(following.world))
        connection = Connection(Store(live.world.tables, 1, asked=asked(following.world)))
        for step in [*steps, ("next", "recompute", 0)]:
            match step:
                case ("append", int(partition), list(some)):
                    live.world.append(partition, *some)
                case ("live" | "next" as which, "trigger", _):
                    (live if which == "live" else following).trigger()
                case ("live" | "next" as which, "recompute", int(back)):
                    (live if which == "live" else following).recompute(back)
            connection.refresh()
            check(following, reader, connection, live=False)
        was = said(reader, following.world)
        promote(following.world)
        fresh = Reader(live.world.tables)
        assert said(fresh, following.world) == was
        check(following, reader, connection, live=True)
        # What was live stands, and answers as a rollback to it would.
        check(live, Reader(live.world.tables, asked=asked(live.world)), None, live=False)


def check(side: Side, reader: Reader, connection: Connection | None, *, live: bool) -> None:
    """Every layer of every view of a release is the oracle's, at the release's own cut, and says whether it is live."""
    world, end = side.world, side.world.writer.end
    found = reader.refresh()
    if not side.built:
        assert isinstance(found, Failed)
        assert found.reason == f"release {world.live.release} is being built; ready: none"
        return
    for layer, (start, to) in ranges_of(side.cut, end).items():
        for view in world.project.views.values():
            answer = reader.answer(view.name, layer=layer)  # type: ignore[arg-type]
            assert isinstance(answer, Value | Absent), answer
            assert differing(world, view, answer, start, to) == {}, (view.name, layer)
            told = answer.provenance
            assert (told.release, told.live, told.cut, told.realtime) == (world.live.release, live, side.cut, to)
            if layer == "merged" and connection is not None and not live:
                assert connection.view(view.name).now().scan().rows() == answer.rows()


def said(reader: Reader, world: World) -> dict[tuple[str, str], Any]:
    """The rows of every layer of every view, with their provenance but for the publication."""
    reader.refresh()
    found = {}
    for layer in LAYERS:
        for name in world.project.views:
            answer = reader.answer(name, layer=layer)  # type: ignore[arg-type]
            assert isinstance(answer, Value | Absent)
            found[name, layer] = answer.rows(), replace(answer.provenance, publication=0, live=True)
    return found


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Side, Side]:
    """Twelve events; the live release is cut at 4 and counts to 12, release 2 is cut at 8 and counts to 10."""
    live = Side(World(tmp_path), LOG_START)
    live.world.append(0, *(hit("/", n) for n in range(12)))
    for end in (4, 8, 10, 12):
        live.world.trigger(position(end))
    live.cut = position(4)
    live.world.recompute(live.cut)
    following = Side(applied(live.world, edited("another filter", "one view more")), live.cut)
    for end in (8, 10):
        following.world.trigger(position(end))
    return live, following


def finish(following: Side) -> Side:
    """Its batch views below 8."""
    following.cut, following.built = position(8), True
    build(following.world, following.cut)
    return following


def test_each_release_has_its_own_cut_and_realtime_views(sides: tuple[Side, Side]) -> None:
    following = finish(sides[1])
    check(following, Reader(following.world.tables, asked=asked(following.world)), None, live=False)


@pytest.mark.parametrize("planted", ["the live cut", "the live realtime views"])
def test_the_law_sees_layers_of_two_releases_mixed(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    following = finish(sides[1])
    newest, tail = IfPromoted.newest, SnapshotFollower._tail

    def of_the_live_cut(self: IfPromoted) -> ReleaseState | None:
        found = newest(self)
        assert found is not None
        return found._replace(state=replace(found.state, cuts={"hits": sides[0].cut}))

    if planted == "the live cut":
        monkeypatch.setattr(IfPromoted, "newest", of_the_live_cut)
    else:
        monkeypatch.setattr(SnapshotFollower, "_tail", lambda self, _, source, cut: tail(self, 1, source, cut))
    with pytest.raises((AssertionError, Unreadable)):
        check(following, Reader(following.world.tables, asked=asked(following.world)), None, live=False)


def test_a_release_that_cannot_be_asked_is_one_sentence(sides: tuple[Side, Side]) -> None:
    world, tables = sides[1].world, sides[1].world.tables

    def why(release: int) -> str:
        reader = Reader(tables, asked=IfPromoted(tables, release, DAYS, lambda: NOON))
        found = reader.refresh()
        assert isinstance(found, Failed)
        with pytest.raises(NotReady) as raised:
            IfPromoted(tables, release, DAYS, lambda: NOON).newest()
        assert str(raised.value) == found.reason
        return found.reason

    assert why(2) == "release 2 is being built; ready: none"
    finish(sides[1])
    assert why(9) == "release 9 was neither live nor applied; ready: 2"
    reader = Reader(tables, asked=asked(world))
    with pytest.raises(UnknownView, match="no view 'evr' is in release 2; views: ever, inverse, per_page, also"):
        reader.view("evr")
    promotion.retire(StandingReleases(tables), 2, by="test", at=NOON, why="wrong")
    assert why(2) == "release 2 is retired (wrong); ready: none"
    answer = Reader(tables, asked=IfPromoted(tables, 1, DAYS, lambda: NOON)).answer("ever")
    assert isinstance(answer, Value)
    assert answer.provenance.live


def test_changes_go_on_from_a_token_of_a_release_that_is_not_live(sides: tuple[Side, Side]) -> None:
    world = finish(sides[1]).world
    token = Connection(Store(world.tables, 1, asked=asked(world))).view("also").now().token
    world.append(0, hit("/new", 5))
    world.trigger()
    connection = Connection(Store(world.tables, 2, asked=asked(world)))
    found = next(iter(connection.view("also").changes(token)))
    assert [row["n"] for row in found.rows.rows()] == [13]
    assert not found.provenance.live
