"""A view as a Spark DataFrame has the rows that a reader answers, of every layer, whatever its window and its types."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tandem.serving import AtOneSnapshot, Value, connect
from tandem.serving.read.merged_layers import Reader, UnknownView
from tandem.serving.read.provenance import Layer
from tandem.serving.spark import dataframe
from tandem.views.kernel.rows import to_rows
from tests.serving.world import DEFINITIONS, World, forty_hits, hit, position

pytestmark = pytest.mark.spark

WINDOWS = """
by_session = View(
    source=hits, keys={"page": "page"}, window=session(minutes=10), measures={"n": count(), "first": first("bytes")}
)
in_threes = View(source=hits, keys={"odd": "bytes % 2 = 1"}, window=count_window(3), measures={"all": collect_set("bytes")})
hops = View(
    source=hits,
    window=hopping(timedelta(minutes=30), every=timedelta(minutes=10)),
    measures={"n": count(), "most": max_by("page", "bytes", 2), "each": derived("n * 2")},
    units={"n": "hits"},
    docs={"n": "How many."},
)
SOURCES = (hits,)
VIEWS = (per_page, ever, inverse, by_session, in_threes, hops)
"""
EVERY = (
    DEFINITIONS[: DEFINITIONS.index("SOURCES =")]
    .replace("from datetime import datetime\n", "from datetime import datetime, timedelta\n")
    .replace("count, approx_count_distinct,", "count, derived, approx_count_distinct, count_window, first, hopping,")
    .replace("mean, total,", "mean, session, collect_set, max_by, total,")
    + WINDOWS
)
LAYERS: tuple[Layer, ...] = ("batch", "speed", "merged")


def rows(spark: SparkSession, at: AtOneSnapshot, view: str, layer: Layer) -> list[dict[str, Any]]:
    found = dataframe(spark, at, view, layer=layer).toArrow()
    return sorted(to_rows(at.pinned.view(view), found), key=repr)


def test_rows_equal_the_readers(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, definitions=EVERY)
    reader, connection = Reader(world.tables), connect(tmp_path, every_s=None)
    for part in range(4):
        hits = (hit(page, 7 * part + n, minute=13 * n - 40 * part) for n, page in enumerate(("/", "/a", None, "/", "/b")))
        world.append(part % 2, *hits)
        world.trigger()
        if part == 1:
            world.recompute(world.end, files=2)
    reader.refresh()
    connection.refresh()
    at = connection.snapshot()
    for view in world.project.views:
        for layer in LAYERS:
            answer = reader.answer(view, layer=layer)
            assert isinstance(answer, Value)
            assert rows(spark, at, view, layer) == sorted(answer.rows(), key=repr), (view, layer)
    schema = dataframe(spark, at, "hops").schema
    assert schema["n"].metadata == {"kind": "integer", "unit": "hits", "doc": "How many."}


def test_a_frame_stays_at_its_pinned_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    world = forty_hits(tmp_path)
    connection = connect(tmp_path, every_s=None)
    frame = dataframe(spark, connection.snapshot(), "ever")
    world.append(0, hit("/more", 1))
    world.trigger()
    world.recompute(position(32, 10))
    assert [row.n for row in frame.collect()] == [39]
    connection.refresh()
    assert [row.n for row in dataframe(spark, connection.snapshot(), "ever").collect()] == [40]
    with pytest.raises(UnknownView, match="no view 'never' is published"):
        dataframe(spark, connection.snapshot(), "never")


def test_a_total_beyond_sparks_digits_fails_and_is_never_another_number(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(0, *(hit("/", 1, price="9" * 36) for _ in range(5)))
    world.trigger()
    frame = dataframe(spark, connect(tmp_path, every_s=None).snapshot(), "per_page")
    with pytest.raises(Exception, match="more than the 38 digits"):
        frame.collect()
