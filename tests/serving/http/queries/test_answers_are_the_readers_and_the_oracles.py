"""For any question in any format, the rows equal those of a reader in process and of plain Python."""

import csv
import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.publications import Publications
from tandem.ledger.realtime_writer import Writer
from tandem.serving.http.protocol.media_types import ARROW, CSV, JSON, NDJSON
from tandem.serving.read.outcome import Value
from tandem.serving.read.reader import Reader
from tests.serving import oracle
from tests.serving.http.served import Asker, Served
from tests.serving.read.test_reader_follows_and_never_steps_back import adopt
from tests.serving.world import NOON, SOURCE, World, hit, position

PAGES = ("/a", "/b", "", 'q"u,o\r\nte', "é☃", None, "/never")
MEASURES = {"per_page": ("n", "bytes", "largest", "price", "mean"), "ever": ("n", "bytes", "pages"), "inverse": ("n", "most")}
HOURS = [NOON + timedelta(hours=hours) for hours in range(-1, 4)]


def in_order(query: dict[str, Any]) -> bool:
    return not (query.get("from") and query.get("to") and query["from"] > query["to"])


queries = st.fixed_dictionaries(
    {"view": st.sampled_from(sorted(MEASURES)), "layer": st.sampled_from(["merged", "batch", "speed"])},
    optional={
        "page": st.sampled_from(PAGES),
        "odd": st.sampled_from([True, False, None]),
        "from": st.sampled_from(HOURS),
        "to": st.sampled_from(HOURS),
        "measures": st.lists(st.integers(0, 4), min_size=1, unique=True),
        "order": st.sampled_from(["-n", "n", "-bytes,n", "-page", "window_start,-n"]),
        "limit": st.integers(1, 8),
    },
).filter(in_order)


class Question:
    """A query as parameters of a URL, as arguments of a reader, and as conditions on rows."""

    def __init__(self, query: dict[str, Any]) -> None:
        self.view, self.layer, self.limit = query["view"], query["layer"], query.get("limit")
        key = {"per_page": "page", "inverse": "odd"}.get(self.view)
        self.keys = {key: query[key]} if key and key in query else {}
        self.start, self.end = (query.get(name) if self.view == "per_page" else None for name in ("from", "to"))
        named = [MEASURES[self.view][n % len(MEASURES[self.view])] for n in query.get("measures", ())]
        self.measures = [name for name in MEASURES[self.view] if not named or name in named]
        known = {"n", "window_start", *MEASURES[self.view], *({key} if key else ())}
        order = [part for part in query.get("order", "").split(",") if part.lstrip("-") in known]
        self.order = [(part.lstrip("-"), part.startswith("-")) for part in order]
        self.parameters = {
            "layer": self.layer,
            **{
                f"key.{name}": str(value).lower() if name == "odd" else value
                for name, value in self.keys.items()
                if value is not None
            },
            **({"null": key} if None in self.keys.values() else {}),
            **({"from": self.start.isoformat()} if self.start else {}),
            **({"to": self.end.isoformat()} if self.end else {}),
            **({"measures": ",".join(named)} if named else {}),
            **({"order": ",".join(order)} if order else {}),
            **({"limit": self.limit} if self.limit else {}),
        }

    def picked(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows that are asked for, in their order, of all that there are in the usual one."""

        def wanted(row: dict[str, Any]) -> bool:
            starts = row["window_start"]
            after = self.start is None or starts >= self.start.strftime("%Y-%m-%dT%H:%M:%SZ")
            before = self.end is None or starts < self.end.strftime("%Y-%m-%dT%H:%M:%SZ")
            return all(row[name] == value for name, value in self.keys.items()) and after and before

        found = [row for row in rows if wanted(row)]
        for name, descends in reversed(self.order):
            there = [row for row in found if row[name] is not None]
            # A sort that descends keeps equal ones as they are, like one that ascends.
            there.sort(key=lambda row: row[name], reverse=descends)
            found = [*there, *(row for row in found if row[name] is None)]
        left_out = set(MEASURES[self.view]) - set(self.measures)
        return [{name: value for name, value in row.items() if name not in left_out} for row in found]


def by_http(asker: Asker, question: Question, media: str, stands: Position) -> tuple[Any, int]:
    """The rows as the format has them, and how many there are on all pages."""
    parameters = {**question.parameters, "min_position": json.dumps(stands.to_json())}
    answer = asker.get(f"/views/{question.view}/rows", params=parameters, headers={"Accept": media})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith(media)
    if media == JSON:
        return answer.json()["rows"], answer.json()["total"]
    total = int(answer.headers["tandem-total"])
    assert json.loads(answer.headers["tandem-provenance"])["layer"] == question.layer
    if media == NDJSON:
        return [json.loads(line) for line in answer.content.splitlines()], total
    if media == CSV:
        return list(csv.reader(io.StringIO(answer.content.decode(), newline=""))), total
    return pa.ipc.open_stream(answer.content).read_all(), total


def as_csv(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def check(world: World, asker: Asker, query: dict[str, Any]) -> None:
    question = Question(query)
    reader = Reader(world.tables)
    stands = reader.snapshot().tails[SOURCE]
    reached = stands.cut if question.layer == "batch" else stands.end
    every = reader.answer(question.view, layer=question.layer)
    start, end = {"merged": (LOG_START, stands.end), "batch": (LOG_START, stands.cut), "speed": (stands.cut, stands.end)}[
        question.layer
    ]
    rows = every.rows() if isinstance(every, Value) else []
    wanted = question.picked(rows)
    plain = question.picked([{"window_state": None, **row} for row in oracle.ANSWERS[question.view](world.values(start, end))])
    limited = wanted[: question.limit]
    found, total = by_http(asker, question, JSON, reached)
    assert (found, total) == (limited, len(wanted))
    assert oracle.unlabelled(found) == oracle.unlabelled(plain[: question.limit])
    assert by_http(asker, question, NDJSON, reached) == (limited, len(wanted))
    lines, _ = by_http(asker, question, CSV, reached)
    assert lines[1:] == [[as_csv(value) for value in row.values()] for row in limited]
    direct = reader.answer(question.view, keys=question.keys, between=(question.start, question.end), layer=question.layer)
    typed, _ = by_http(asker, question, ARROW, reached)
    assert lines[0] == typed.schema.names
    if isinstance(direct, Value) and not question.order:
        assert typed.equals(direct.table.slice(0, question.limit).select(typed.schema.names))
    else:
        assert len(typed) == len(limited)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def batch(world: World, seed: int) -> None:
    for n in range(12):
        page = PAGES[(seed * 5 + n) % 6]
        world.append(n % 2, hit(page, (seed * 7 + n * 3) % 11, minute=(seed * 17 + n * 13) % 170 - 30, price=f"{n}.{seed}0"))


def test_answers_by_http_equal_the_readers_while_commits_land_and_releases_change(world: World) -> None:
    batch(world, 0)
    world.trigger()
    served = Served(world, {"wait_s": 30, "rate": 10**6, "burst": 10**6})

    def stages() -> Any:
        yield "a first commit"
        for seed in (1, 2):
            batch(world, seed)
            world.trigger()
            yield "another commit"
        world.recompute(world.end, files=2)
        yield "all below the cut"
        batch(world, 3)
        world.trigger()
        world.compact()
        yield "both layers, compacted"
        cut = world.end
        release = adopt(world, cut)
        world.writer = Writer.claim(world.tables, release, SOURCE, by="test", at=NOON)
        yield "a promoted release"
        world.append(0, b"{broken", hit("/a", 0))
        batch(world, 4)
        world.trigger()
        yield "its first commit"
        world.recompute(position(*(len(values) for values in world.log.values())))
        yield "its recompute"

    with served.asker() as asker:
        for _ in stages():
            live = Publications(world.tables).latest()
            # A position says nothing of the publication, which moves the cut: its answers are there with the next look.
            while live and asker.get("/views/ever/rows").json()["provenance"]["publication"] != live.number:
                pass

            @settings(max_examples=max(2, settings().max_examples // 5))
            @given(queries)
            def agree(query: dict[str, Any]) -> None:
                check(world, asker, query)

            agree()


def test_single_rows_and_lookups_give_the_same_rows(world: World) -> None:
    for seed in (0, 1):
        world.recompute(world.end)
        batch(world, seed)
        world.trigger()
    with Served(world).asker() as asker:
        rows = asker.get("/views/per_page/rows").json()["rows"]
        assert rows
        for row in rows:
            named = {"null": "page"} if row["page"] is None else {"key.page": row["page"]}
            one = asker.get("/views/per_page/row", params={**named, "window": row["window_start"]}).json()
            assert one["row"] == row
        keys = [{"page": page} for page in PAGES]
        looked = asker.post("/views/per_page/lookup", json={"keys": keys}).json()
        assert looked["rows"] == [row for key in keys for row in rows if row["page"] == key["page"]]
        assert looked["absent"] == [PAGES.index("/never")]
        numbers = asker.post("/views/inverse/lookup", json={"keys": [{"odd": True}, {"odd": "false"}]}).json()
        assert [row["odd"] for row in numbers["rows"]] == [True, False]
