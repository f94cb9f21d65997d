"""In process, by HTTP in every format, by SQL or as a Spark DataFrame, a view's rows equal the plain oracle's.

The oracle adds up exactly the events below the position at which an answer stands: whatever is committed, recomputed and promoted
meanwhile.
"""

import csv
import io
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

from tandem.ledger.log.positions import LOG_START, Position
from tandem.serving import AtOneSnapshot
from tandem.serving.connection import Connection
from tandem.serving.http.protocol.formats import rows_of
from tandem.serving.http.protocol.media_types import CSV, JSON, MEDIA, NDJSON
from tandem.serving.memory.store import MEMORY, Store
from tandem.serving.read.provenance import Layer
from tandem.serving.read.window_zone import clocks, zone_name
from tandem.serving.spark import dataframe
from tandem.serving.sql.limits import StatementLimits
from tandem.serving.sql.merged_views import MergedViews, ask
from tandem.serving.sql.result_rows import to_rows
from tandem.serving.sql.sandbox import Sandbox
from tandem.views.instant import utc_text
from tandem.views.kernel import rows as views_rows
from tandem.views.view import View, group_columns
from tandem.views.windows import WINDOW_COLUMNS
from tests.samples import LONGER
from tests.serving.all_ways import DEFINITIONS, Expected, Question, Row, Truth, event, in_order
from tests.serving.http.served import Asker, Served
from tests.serving.memory.test_memory_equals_the_reader import Played
from tests.serving.world import SOURCE, World

STEPS = 167 if LONGER else 4
"""At each of which every view is asked: a thousand questions in the long run."""
QUESTIONS = 8
LAYERS: tuple[Layer, ...] = ("merged", "merged", "merged", "batch", "speed")


class Stream:
    """What happens to a project, drawn by dice: commits, recomputes, promotions."""

    def __init__(self, folder: Path, dice: Random) -> None:
        self.world, self.dice = World(folder, definitions=DEFINITIONS), dice
        self.played = Played(self.world)
        self._truths: dict[tuple[str, str, str], Truth] = {}

    def go_on(self, kind: str | None = None) -> None:
        """One more step."""
        kind = kind or self.dice.choice(("commit", "commit", "commit", "recompute", "extend", "compact", "promote"))
        if kind == "commit":
            partition, many = self.dice.randrange(2), self.dice.choice((1, 1, 5, 40))
            self.played.play(("commit", partition, [event(self.dice) for _ in range(many)]))
        else:
            self.played.play((kind, self.dice.randrange(3)) if kind in ("recompute", "extend") else (kind,))

    def expected(self, question: Question, cut: Position, end: Position) -> list[Expected]:
        """What the oracle says to a question at a position."""
        first = cut if question.layer == "speed" else LOG_START
        last = cut if question.layer == "batch" else end
        place = (question.view.name, str(first), str(last))
        truth = self._truths.setdefault(place, Truth(self.world, question.view, first, last))
        return question.picked(truth.rows)


def by_http(asker: Asker, question: Question, media: str) -> tuple[Any, int]:
    """The first page as a format has it, and how many rows there are."""
    parameters = [*question.parameters, ("limit", str(question.limit))]
    answer = asker.get(f"/views/{question.view.name}/rows", params=parameters, headers={"Accept": media})
    assert answer.status_code == 200, answer.text
    total = answer.json()["total"] if media == JSON else int(answer.headers["tandem-total"])
    return read(answer.content, media, rows_of), total


def read(content: bytes, media: str, typed: Any) -> Any:
    """The rows of a response; of CSV lists of texts, the first of them names."""
    if media == JSON:
        return json.loads(content)["rows"]
    if media == NDJSON:
        return [json.loads(line) for line in content.splitlines()]
    if media == CSV:
        return list(csv.reader(io.StringIO(content.decode(), newline="")))
    return typed(pa.ipc.open_stream(content).read_all())


def csv_in_utc(view: View, rows: list[list[str]]) -> list[list[str]]:
    """Rows of CSV with the bounds of windows in UTC, after a check that they are in the view's zone."""
    clock = clocks(zone_name(view))
    places = [rows[0].index(name) for name in WINDOW_COLUMNS if zone_name(view) is not None]
    for row in rows[1:]:
        for place in places:
            at = datetime.fromisoformat(row[place])
            assert at.utcoffset() == at.astimezone(clock).utcoffset()
            row[place] = utc_text(at.astimezone(UTC))
    return rows


def as_csv(rows: Sequence[Row], columns: Sequence[str]) -> list[list[str]]:
    """What CSV has of rows, read by a reader that cannot tell NULL from an empty text."""

    def cell(value: Any) -> str:
        if value is None or isinstance(value, str):
            return value or ""
        return (
            json.dumps(value, separators=(",", ":"), ensure_ascii=False) if isinstance(value, list | dict) else json.dumps(value)
        )

    return [[*columns], *([cell(value) for value in row.values()] for row in rows)]


def pages(asker: Asker, question: Question, rows: int) -> Iterator[list[Row]]:
    """All rows by cursor, page by page; there are so many, which makes a few pages."""
    cursor, limit = None, max(2, question.limit, -(-rows // 4))
    while True:
        parameters = [*question.parameters, ("limit", str(limit)), *([("cursor", cursor)] if cursor else [])]
        answer = asker.get(f"/views/{question.view.name}/rows", params=parameters)
        assert answer.status_code == 200, answer.text
        yield answer.json()["rows"]
        cursor = answer.json()["next"]
        if cursor is None:
            return


def in_process(at: AtOneSnapshot, question: Question) -> list[Row]:
    """All rows in the usual order, with the measures that are wanted."""
    found = at.view(question.view.name).scan(question.keys, between=(question.start, question.end), layer=question.layer)
    return [{name: row[name] for name in question.columns} for row in found.rows()]


def check(stream: Stream, at: AtOneSnapshot, ways: tuple[Asker, Sandbox, MergedViews], question: Question) -> None:
    """Ask every way, at one snapshot."""
    asker, sandbox, views = ways
    tail = at.pinned.snapshot.tails[SOURCE]
    every = stream.expected(question, tail.cut, tail.end)
    first = every[: question.limit]

    def same(way: str, rows: Sequence[Row], wanted: Sequence[Expected] = first) -> None:
        assert (problem := question.differ(wanted, rows)) is None, (way, question, problem)

    usual = replace(question, order=())
    own = in_process(at, question)
    same("in process", own, stream.expected(usual, tail.cut, tail.end))
    labels = {place(row, question): row["window_state"] for row in own}
    rows: list[Row] = []
    for media in MEDIA:  # JSON is the first
        found, total = by_http(asker, question, media)
        assert total == len(every), (media, question)
        if media == CSV:
            assert csv_in_utc(question.view, found) == as_csv(rows, question.columns), question
        else:
            rows = [{name: row[name] for name in question.columns} for row in found]
            same(media, found)
            assert [row["window_state"] for row in rows] == [labels[place(row, question)] for row in rows]
    same("pages", [row for page in pages(asker, question, len(every)) for row in page], every)
    if question.layer != "merged":
        return
    if question.keys and question.keys.keys() == question.view.keys.keys():
        wanted = stream.expected(replace(usual, start=None, end=None), tail.cut, tail.end)
        by_key(at, asker, question, wanted)
    if not question.keys and question.view.name == "ever":
        one = at.view("ever").get()
        same("get", [] if one is None else [{name: one[name] for name in question.columns}], every)
    selected = to_rows(ask(sandbox, views, question.sql).table)
    same("sql", selected)
    # Two readers may estimate differently, since sketches throw dice: CSV is held against what the same server says.
    for media in (JSON, stream.dice.choice(MEDIA)):
        answer = asker.post("/sql", json={"statement": question.sql}, headers={"Accept": media})
        assert answer.status_code == 200, answer.text
        found = read(answer.content, media, to_rows)
        if media == CSV:
            assert found == as_csv(rows, question.columns), question
        else:
            rows = found
            same(f"sql as {media}", rows)


def place(row: Row, question: Question) -> str:
    """What tells a row from others."""
    return str([row[name] for name in group_columns(question.view)])


def by_key(at: AtOneSnapshot, asker: Asker, question: Question, wanted: Sequence[Expected]) -> None:
    """The rows of one key by look-up, and each of them by itself."""
    view, name, columns = at.view(question.view.name), question.view.name, question.columns
    key = {one: str(value) if isinstance(value, Decimal | datetime) else value for one, value in question.keys.items()}
    answer = asker.post(f"/views/{name}/lookup", json={"keys": [key], "measures": [*question.measures]})
    assert answer.status_code == 200, answer.text
    own = [{one: row[one] for one in columns} for row in view.lookup([question.keys]).rows()]
    for rows in (answer.json()["rows"], own):
        assert (problem := question.differ(wanted, rows)) is None, (question, problem)
    assert answer.json()["absent"] == ([] if wanted else [0])
    if in_order(question.view):
        return
    for one in wanted[:3]:
        starts = one.group["window_start"]
        row = view.get(question.keys, window=starts)
        assert row is not None
        assert question.differ([one], [{name: row[name] for name in columns}]) is None
        parameters = [two for two in question.parameters if two[0] not in ("from", "to", "order")]
        window = [] if starts is None else [("window", one.said["window_start"])]
        alone = asker.get(f"/views/{name}/row", params=[*parameters, *window])
        assert question.differ([one], [alone.json()["row"]]) is None, alone.text


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(StatementLimits(seconds=60)) as made:
        yield made


def caught_up(asker: Asker, at: AtOneSnapshot) -> None:
    """Return once the server stands at the snapshot, which it looks for again and again."""
    snapshot = at.pinned.snapshot
    stands = json.dumps(snapshot.tails[SOURCE].end.to_json())
    assert asker.get("/views/ever/rows", params={"min_position": stands}).status_code == 200
    for _ in range(10_000):
        found = asker.get("/status").json()
        if (found["publication"], found["release"]) == (snapshot.publication.number, snapshot.publication.release):
            return
    pytest.fail(f"the server never got to publication {snapshot.publication.number}")


@pytest.mark.parametrize("memory_mb", [64, pytest.param(0, id="from files")])
def test_random_questions_have_the_oracles_rows_between_commits_and_promotions(
    sandbox: Sandbox, tmp_path: Path, memory_mb: int
) -> None:
    """What was begun at one snapshot, the pages of a cursor and questions of a program, goes on there after the next step."""
    seed = 7 if settings().derandomize else Random().getrandbits(32)
    print(f"{seed=}")  # noqa: T201 - pytest shows it if this fails
    dice = Random(seed)
    stream = Stream(tmp_path, dice)
    stream.go_on("commit")
    served = Served(stream.world, {"wait_s": 60, "rate": 10**6, "burst": 10**6})
    memory = served.server.lane.cache.store.memory = memory_mb << 20
    store = Store(stream.world.tables, 5, memory)
    connection, views = Connection(store), MergedViews(store)
    with served.asker() as asker:
        for _ in range(STEPS if memory_mb else STEPS // 4):
            connection.refresh()
            at = connection.snapshot()
            caught_up(asker, at)
            for name, view in stream.world.project.every_view.items():
                question = Question.drawn(dice, {name: view}, layers=LAYERS)
                check(stream, at, (asker, sandbox, views), question)
            later = replace(Question.drawn(dice, stream.world.project.every_view), limit=2)
            tail = at.pinned.snapshot.tails[SOURCE]
            every = stream.expected(later, tail.cut, tail.end)
            some = pages(asker, later, len(every))
            begun = next(some)
            stream.go_on()
            connection.refresh()
            caught_up(asker, connection.snapshot())
            assert (problem := later.differ(every, [*begun, *(row for page in some for row in page)])) is None, problem
            own = stream.expected(replace(later, order=()), tail.cut, tail.end)
            assert (problem := later.differ(own, in_process(at, later))) is None, problem


def test_each_answer_counts_what_is_below_its_position_while_others_commit(sandbox: Sandbox, tmp_path: Path) -> None:
    dice = Random(8)
    stream = Stream(tmp_path, Random(9))
    stream.go_on("commit")
    served = Served(stream.world, {"wait_s": 60, "rate": 10**6, "burst": 10**6})
    over = threading.Event()
    stands: set[str] = set()

    def ingest() -> None:
        while not over.is_set():
            stream.go_on()

    with served.asker() as asker:
        committing = threading.Thread(target=ingest)
        committing.start()
        try:
            for _ in range(STEPS):
                question = Question.drawn(dice, stream.world.project.every_view)
                parameters = [*question.parameters, ("limit", str(question.limit))]
                found = asker.get(f"/views/{question.view.name}/rows", params=parameters).json()
                selected = asker.post("/sql", json={"statement": question.sql}).json()
                told = selected["provenance"]["views"][question.view.name]
                for rows, realtime in ((found["rows"], found["provenance"]["realtime"]), (selected["rows"], told["realtime"])):
                    end = Position.from_json(realtime)
                    stands.add(str(end))
                    truth = Truth(stream.world, question.view, LOG_START, end)
                    wanted = question.picked(truth.rows)[: question.limit]
                    assert (problem := question.differ(wanted, rows)) is None, (question, problem)
        finally:
            over.set()
            committing.join()
    assert len(stands) > 1  # something was committed meanwhile


@pytest.mark.slow
@pytest.mark.spark
def test_a_spark_data_frame_has_the_oracles_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Each view as one frame for each layer and snapshot; questions are picked from its rows, and a few are asked of Spark."""
    dice = Random(10)
    stream = Stream(tmp_path, dice)
    connection = Connection(Store(stream.world.tables, 5, MEMORY))
    for _ in range(3):
        for kind in ("commit", "commit", "recompute", "commit", None):
            stream.go_on(kind)
        connection.refresh()
        at = connection.snapshot()
        tail = at.pinned.snapshot.tails[SOURCE]
        for name, view in stream.world.project.every_view.items():
            layers: tuple[Layer, ...] = ("merged", "batch") if in_order(view) else ("merged", "batch", "speed")
            for layer in layers:
                collected = views_rows.to_rows(view, dataframe(spark, at, name, layer=layer).toArrow())
                everything = Question(view, {}, None, None, layer, tuple(view.measures), (), 1000)
                truth = stream.expected(everything, tail.cut, tail.end)
                assert (problem := everything.differ(truth, collected)) is None, (name, layer, problem)
                for _ in range(QUESTIONS):
                    question = replace(Question.drawn(dice, {name: view}), layer=layer, order=())
                    places = {place(one.said, question) for one in question.picked(truth)}
                    rows = [{one: row[one] for one in question.columns} for row in collected if place(row, question) in places]
                    assert (problem := question.differ(question.picked(truth), rows)) is None, (question, problem)
        for _ in range(QUESTIONS):
            counting = {name: view for name, view in stream.world.project.every_view.items() if "n" in view.measures}
            question = replace(Question.drawn(dice, counting), order=())
            frame = dataframe(spark, at, question.view.name).select(*question.view.keys, "window_start", "n")
            for key, value in question.keys.items():
                frame = frame.where(frame[key].eqNullSafe(lit(value)))
            frame = frame.where(frame.window_start >= question.start) if question.start else frame
            frame = frame.where(frame.window_start < question.end) if question.end else frame
            wanted = question.picked(stream.expected(question, tail.cut, tail.end))
            assert sorted(row.n for row in frame.collect()) == sorted(one.values["n"] for one in wanted), question
