"""Hot commits of several sources, and what goes out of them: answers, tokens, sinks and alerts count each up to its own end."""

import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import settings

from tandem.cli.__main__ import main
from tandem.ledger.hot.chain import HotChange
from tandem.ledger.hot.feed import HotFeed
from tandem.ledger.hot.messages import HotStatus, message_of
from tandem.serving.changes import watch
from tandem.serving.connection import Connection
from tandem.serving.memory.changes_token import ChangesToken, TokenGone
from tandem.serving.memory.store import Store
from tests.samples import LONGER
from tests.together.test_sources_in_all_ways import key_of, model_rows, play, some_events, texts, without_label
from tests.together.two_sources import ONE_TOPIC, SOURCES, TWO_TOPICS, VIEWS, TwoSources, event

STORIES = 60 if LONGER else 1
OUT = (
    TWO_TOPICS.replace("    Event,", "    Alert, Event, Sink, delta_table,")
    + """
SINKS = (Sink(hourly, to=delta_table("lake/hourly"), name="lake"),)
ALERTS = (Alert(ever, when="clicked > shown", name="odd"),)
"""
)


def fold_hot(world: TwoSources, feed: HotFeed, source: str) -> None:
    """A hot commit of what its source's log has beyond all commits."""
    side = world.sides[source]
    start, end = side.hot or side.writer.end, world.end(source)
    if start != end:
        commit = world.fold(source, start, end, epoch=7)
        side.hot = end
        feed.apply(message_of(1, source, HotStatus(), HotChange(side.writer.end, commit)))


def hand_over(world: TwoSources, feed: HotFeed, source: str) -> None:
    """A micro-batch takes the place of the source's hot commits."""
    world.commit(source)
    world.sides[source].hot = None
    feed.apply(message_of(1, source, HotStatus(), HotChange(world.sides[source].writer.end)))


@pytest.mark.each_run("two topics")
@pytest.mark.parametrize("definitions", [TWO_TOPICS, ONE_TOPIC], ids=["two topics", "one topic"])
def test_hot_commits_of_each_source_are_counted(definitions: str) -> None:
    seed = 3 if settings().derandomize else Random().getrandbits(32)
    for story in range(STORIES):
        dice, continued = Random(seed + story), 0
        with TemporaryDirectory() as folder:
            world, feed = TwoSources(Path(folder), definitions), HotFeed(lambda: 0.0)
            connection = Connection(Store(world.tables, 3, hot=feed))
            before: dict[str, tuple[str, dict[Any, Any]]] = {}
            for _ in range(16):
                source = dice.choice(SOURCES)
                world.append(source, *some_events(dice, source))
                if dice.random() < 0.6:
                    fold_hot(world, feed, source)
                elif dice.random() < 0.7 or world.sides["seen"].hot or world.sides["clicks"].hot:
                    hand_over(world, feed, source)
                else:
                    play(world, dice)
                connection.refresh()
                for view in VIEWS:
                    now = connection.view(view).now()
                    rows = {key_of(row): row for row in now.scan().to_arrow().to_pylist()}
                    wanted = [dict(row, window_state=None) for row in model_rows(world, view)]
                    assert texts([dict(row, window_state=None) for row in rows.values()]) == texts(wanted)
                    stands = {name: each.realtime for name, each in now.scan().provenance.sources.items()}
                    assert stands == {name: side.hot or side.writer.end for name, side in world.sides.items()}
                    if view in before:
                        continued += continues(connection, view, *before[view], rows)
                    before[view] = now.token, rows
            assert continued > 8


def continues(connection: Connection, view: str, token: str, before: dict[Any, Any], rows: dict[Any, Any]) -> bool:
    """Whether a token leads to the rows of now; if it has expired, nothing is sent."""
    try:
        changes = watch(connection.store, connection.pinned(), view, ChangesToken.parse(token)).look(
            connection.pinned(), renew=True
        )
    except TokenGone:
        return False
    assert changes is not None
    after = {key: row for key, row in before.items() if key not in {key_of(row) for row in changes.gone.to_pylist()}}
    after |= {key_of(row): row for row in changes.rows.to_arrow().to_pylist()}
    assert without_label(after) == without_label(rows)
    return True


def run(world: TwoSources, capsys: pytest.CaptureFixture[str], *command: str) -> Any:
    assert main([*command, "--project", str(world.folder), "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_a_target_is_the_view_at_its_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world, dice = TwoSources(tmp_path, OUT), Random(4)
    for source, cut in (("seen", False), ("clicks", True), ("clicks", False), ("seen", True), ("clicks", False)):
        world.append(source, *some_events(dice, source))
        world.commit(source)
        if cut:
            world.recompute(source, world.sides[source].ends[-1])
        run(world, capsys, "sink", "lake", "--once")
        rows = Connection(Store(world.tables, 3)).view("hourly").scan().to_arrow().drop_columns(["window_state"])
        target = DeltaTable(tmp_path / "lake" / "hourly").to_pyarrow_table().select(rows.column_names)
        assert sorted(map(str, target.to_pylist())) == sorted(map(str, rows.to_pylist()))
        (sink,) = run(world, capsys, "status")["sinks"]
        assert (sink["view"], sink["lag"], sink["lag_s"]) == ("hourly", 0, 0.0)
    world.append("clicks", *some_events(dice, "clicks"))
    end = world.end("clicks")["T-clicks", 0]
    behind = end - world.sides["clicks"].writer.end["T-clicks", 0]
    world.commit("clicks")
    (sink,) = run(world, capsys, "status")["sinks"]
    assert sink["lag"] == behind


def test_a_row_of_several_sources_is_raised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = TwoSources(tmp_path, OUT)
    world.append("seen", event("seen", "A", 1, 3))
    world.append("clicks", event("click", "A", 2, "Ann"), event("click", "A", 3, "Bea"))
    for source in SOURCES:
        world.commit(source)
    run(world, capsys, "alerts", "run", "--once")
    (odd,) = run(world, capsys, "alerts")["alerts"]
    assert [(row["view"], row["now"]["row"]["clicked"], row["now"]["row"]["shown"]) for row in odd["raised"]] == [("ever", 2, 1)]
    world.append("seen", event("seen", "A", 1, 3), event("seen", "A", 1, 4))
    world.commit("seen")
    run(world, capsys, "alerts", "run", "--once")
    assert run(world, capsys, "alerts")["alerts"][0]["raised"] == []


def test_a_hot_tail_of_one_source_starts_again(tmp_path: Path) -> None:
    """Another process folds the same range, and counts another duplicate: rows of the earlier one are not taken for its own."""
    world, feed = TwoSources(tmp_path), HotFeed(lambda: 0.0)
    connection = Connection(Store(world.tables, 3, hot=feed))
    world.append("clicks", event("click", "A", 1, "Ann"))
    world.append("seen", event("seen", "A", 1, 3))
    for source in SOURCES:
        world.commit(source)
        world.append(source, event("seen" if source == "seen" else "click", "A", 2, 4 if source == "seen" else "Bea"))
        fold_hot(world, feed, source)
    connection.refresh()
    assert connection.view("hourly").rows()[0]["cost"] == 7
    start, end = world.sides["seen"].writer.end, world.end("seen")
    world.logs["T-seen"][-1] = event("seen", "A", 2, 5)
    feed.apply(message_of(1, "seen", HotStatus(), HotChange(start, world.fold("seen", start, end, epoch=6))))
    connection.refresh()
    assert connection.view("hourly").rows()[0]["cost"] == 8
