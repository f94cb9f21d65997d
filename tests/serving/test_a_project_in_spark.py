"""In Spark a project is what `query` answers, and what delta-rs reads of its tables, at one snapshot; it is not written."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from tandem.ledger.log.positions import Position
from tandem.serving import ReadFailed, Value
from tandem.serving.read.merged_layers import Reader, UnknownView
from tandem.serving.read.selection import BadSelection
from tandem.serving.read.snapshot_follower import live_at
from tandem.serving.spark_frames import Frames, UnknownSource, snapshot
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.kernel.rows import to_rows
from tests.serving.two_releases import applied, asked, build, edited
from tests.serving.world import NOON, SOURCE, World, forty_hits, hit, position

pytestmark = pytest.mark.spark

BROKEN = b"{broken"


def fed(folder: Path) -> World:
    """In the middle of a feed: batch and archive below 31 of partition 0, realtime views up to 36 of it and 10 of partition 1."""
    world = forty_hits(folder)
    world.clock = NOON + timedelta(hours=1)
    world.append(0, *(hit("/fed", n) for n in range(4)), BROKEN, *(hit("/not yet", n) for n in range(5)))
    world.trigger(position(36, 10))
    return world


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted(frame.toArrow().to_pylist(), key=repr)


def by_delta_rs(table: str, schema: list[str], place: tuple[str, str, str], end: Position) -> list[dict[str, Any]]:
    """The rows of a table below a position, read without Spark."""
    found = DeltaTable(table).to_pyarrow_table().select(schema).to_pylist()
    topic, partition, offset = place
    return sorted((row for row in found if row[offset] < end.get((row[topic], row[partition]), 0)), key=repr)


def check_views(world: World, at: Frames) -> None:
    """The views are what a reader answers, as `query` asks it."""
    past = at.reader.publication
    for view in at.views:
        answer = Reader(world.tables, past).answer(view, layer="merged" if past is None else "batch")
        assert isinstance(answer, Value)
        found = to_rows(at.reader.view(view), at.view(view).toArrow())
        assert sorted(found, key=repr) == sorted(answer.rows(), key=repr), view


def check_log(world: World, at: Frames, end: Position) -> None:
    """Events and quarantine are what delta-rs reads up to `end`."""
    assert at.position(SOURCE) == end
    decoder = decoder_fingerprint(world.project.sources[SOURCE])
    for frame, table, names in (
        (at.events(SOURCE), world.tables.events(SOURCE, decoder), ("_topic_id", "_partition", "_offset")),
        (at.quarantine(SOURCE), world.tables.quarantine(SOURCE, decoder), ("topic_id", "partition", "offset")),
    ):
        assert rows(frame) == by_delta_rs(table, frame.columns, names, end)


def registered(spark: SparkSession, world: World, **of: Any) -> Frames:
    at = snapshot(world.folder, session=spark, **of)
    assert at.register() == dict.fromkeys((*world.project.views, "hits_events", "hits_quarantine"))
    return at


@pytest.mark.slow
def test_everything_is_read_at_one_snapshot_during_a_feed(spark: SparkSession, tmp_path: Path) -> None:
    world = fed(tmp_path)
    at = registered(spark, world)
    check_views(world, at)
    check_log(world, at, position(31))
    ever, events, rejects = rows(at.view("ever")), at.events(SOURCE), rows(at.quarantine(SOURCE))
    known = rows(events)
    # Now the archive is ahead of the realtime views.
    world.file_in_archive(position(31))
    check_log(world, snapshot(tmp_path, session=spark), position(36, 10))
    # The feed goes on; what was taken before stays.
    world.trigger()
    world.recompute(world.end)
    assert (rows(at.view("ever")), rows(events), rows(at.quarantine(SOURCE))) == (ever, known, rejects)
    newer = registered(spark, world)
    check_log(world, newer, world.end)
    assert (len(known), newer.events(SOURCE).count(), newer.publication) == (30, 49, at.publication + 1)
    found = spark.sql("SELECT sum(n) AS n, (SELECT count(*) FROM hits_events) AS events FROM per_page").collect()
    assert (found[0].n, found[0].events) == (49, 49)


@pytest.mark.slow
def test_a_past_publication_has_the_events_below_its_cut(spark: SparkSession, tmp_path: Path) -> None:
    world = fed(tmp_path)
    world.file_in_archive(position(31))
    world.trigger()
    world.clock = NOON + timedelta(hours=2)
    world.recompute(world.end)
    at = registered(spark, world, publication=2)
    check_views(world, at)
    check_log(world, at, position(31))
    assert snapshot(world.folder, session=spark, publication=1).events(SOURCE).count() == 0
    at = snapshot(world.folder, session=spark, as_of=NOON + timedelta(minutes=90))
    assert (at.publication, live_at(world.tables, NOON + timedelta(hours=2))) == (2, 3)
    with pytest.raises(BadSelection, match="publication 2 has only the layer batch"):
        at.view("ever", layer="speed")
    with pytest.raises(BadSelection, match="publication and as_of cannot be combined"):
        snapshot(world.folder, session=spark, publication=1, as_of=NOON)
    with pytest.raises(BadSelection, match="has no time zone"):
        snapshot(world.folder, session=spark, as_of=NOON.replace(tzinfo=None))
    with pytest.raises(ReadFailed, match="cannot answer from publication 9"):
        snapshot(world.folder, session=spark, publication=9)


@pytest.mark.slow
def test_a_release_before_it_is_live_is_what_a_reader_of_it_answers(spark: SparkSession, tmp_path: Path) -> None:
    world = fed(tmp_path)
    ready = applied(world, edited("another filter"))
    ready.trigger()
    build(ready, position(31))
    live, at = (snapshot(world.folder, session=spark, release=number) for number in (None, 2))
    answer = Reader(world.tables, asked=asked(ready)).answer("ever")
    assert isinstance(answer, Value)
    assert to_rows(at.reader.view("ever"), at.view("ever").toArrow()) == answer.rows()
    assert [frames.view("ever").toArrow()["n"].to_pylist() for frames in (live, at)] == [[42], [34]]
    with pytest.raises(ReadFailed, match="release 7 was neither live nor applied; ready: 2"):
        snapshot(world.folder, session=spark, release=7)
    with pytest.raises(BadSelection, match="release cannot be combined with publication or as_of"):
        snapshot(world.folder, session=spark, release=2, publication=1)


def test_absent_views_and_sources_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(0, hit("/", 1))
    world.trigger()
    at = snapshot(tmp_path, session=spark)
    assert (at.events(SOURCE).count(), at.quarantine(SOURCE).count()) == (0, 0)
    assert {"moment", "page", "_offset"} < set(at.events(SOURCE).columns)
    with pytest.raises(UnknownSource, match="no source 'hit' is published; sources: hits"):
        at.events("hit")
    with pytest.raises(UnknownView, match="no view 'never'"):
        at.view("never")
    # A cut above what is decoded: the events of the batch views are not all there.
    world.recompute(world.end)
    at = snapshot(tmp_path, session=spark)
    problems = at.register()
    assert [name for name, problem in problems.items() if problem] == ["hits_events", "hits_quarantine"]
    with pytest.raises(
        ReadFailed, match=r"publication 2 counts source 'hits' up to .*, but the archive is decoded up to the log's start"
    ):
        at.quarantine(SOURCE)


WRITES = (
    "INSERT INTO {name} SELECT * FROM {name}",
    "INSERT OVERWRITE {name} SELECT * FROM {name}",
    "DELETE FROM {name}",
    "UPDATE {name} SET {column} = NULL",
    "MERGE INTO {name} t USING {name} s ON t.{column} = s.{column} WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE {name}",
)
REFUSED = "not allowed|expects a table but|found a partial scan|does not support|Unexpected table relation"


def test_a_write_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    world = fed(tmp_path)
    at = registered(spark, world)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    frames_of = {name: at.view(name) for name in at.views}
    frames_of |= {"hits_events": at.events(SOURCE), "hits_quarantine": at.quarantine(SOURCE)}
    for name, frame in frames_of.items():
        for write in WRITES:
            with pytest.raises(Exception, match=REFUSED):
                spark.sql(write.format(name=name, column=frame.columns[0]))
        with pytest.raises(Exception, match=REFUSED):
            frame.write.insertInto(name)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == files
