"""The same questions over HTTP, of a connection that is kept, while another process commits."""

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import quote

from tandem.bench.serving.published import AT, SMALL, VIEW
from tandem.bench.serving.questions import Questions, QuestionTimes, ServingScale, asked, many, numbered, questions, timed
from tandem.bench.serving.served import POLL_S, BenchClient, ingesting, server, watching
from tandem.views.errors import TandemError
from tandem.views.instant import utc_text

if TYPE_CHECKING:
    from subprocess import Popen

PAGES: Final = 1_000
"""Requests of a commit, each of another page."""
EVERY_S: Final = 0.25
"""Between two commits."""
PAUSE_S: Final = 0.05
"""Before a statement: in that time a process is made ready for it."""
TOP: Final = f"/views/{SMALL}/rows?order=-bytes&limit=10"


@dataclass(frozen=True)
class OverHTTP:
    """One server: besides a row and many keys a range of a hundred windows, the ten largest, and a small statement in SQL.

    `sql_at_once` is of statements without a pause, which wait for the processes that are made for them. `visible` is the time
    from a commit to an answer that counts it. `sums` are asked for before anything is committed.
    """

    keys: int
    row: QuestionTimes
    lookup: QuestionTimes
    scan: QuestionTimes
    top: QuestionTimes
    sql: QuestionTimes
    sql_at_once: QuestionTimes
    visible: QuestionTimes
    commits: int
    sums: tuple[int, int]
    by: Literal["HTTP"] = "HTTP"

    @property
    def polls(self) -> float:
        """In how many looks of the server a commit is counted, at the 99th percentile."""
        return self.visible.p99 / POLL_S


def over_http(folder: Path, keys: int, scale: ServingScale) -> OverHTTP:
    """Questions to a server that is a process of its own, and commits of another one."""
    with server(folder) as (_, client):
        first = [client.document(_row(name))["row"] for name in questions(keys, scale.rows)[: scale.duckdb]]
        found = client.document(f"/views/{VIEW}/lookup", _keys(many(keys, scale.lookups)[0]))["rows"]
        sums = tuple(numbered((one["hits"], one["bytes"]) for one in rows if one) for rows in (first, found))
        for path in (_range(0), TOP):
            client.ask(path)
        client.ask("/sql", _statement(0))
        with ingesting(folder, keys, PAGES, EVERY_S, 0) as committing, watching(folder, client, committing) as watcher:
            row, lookup = map(timed, questions_to(client, keys, scale))
            scan = timed([partial(client.ask, _range(number)) for number in range(scale.lookups)])
            top = timed([partial(client.ask, TOP) for _ in range(scale.lookups)])
            statements = [partial(client.ask, "/sql", _statement(number)) for number in range(scale.lookups)]
            sql, sql_at_once = timed(statements, pause_s=PAUSE_S), timed(statements)
            seen = [_seconds(watcher) for _ in range(scale.commits)]
        return OverHTTP(keys, row, lookup, scan, top, sql, sql_at_once, asked(seen), len(seen), (sums[0], sums[1]))


def questions_to(client: BenchClient, keys: int, scale: ServingScale) -> Questions:
    """What a client asks of a view of N keys."""
    rows = [partial(client.ask, _row(name)) for name in questions(keys, scale.rows)]
    return rows, [partial(client.ask, f"/views/{VIEW}/lookup", _keys(names)) for names in many(keys, scale.lookups)]


def _seconds(watcher: "Popen[bytes]") -> float:
    """How long it took until an answer counted the next commit. Raises TandemError."""
    assert watcher.stdout is not None
    line = watcher.stdout.readline()
    if not line:
        raise TandemError("no commit is waited for any longer; ingesting.err and watching.err, beside the tables, say why")
    return float(line)


def _row(name: str) -> str:
    return f"/views/{VIEW}/row?key.page={quote(name, safe='')}"


def _keys(names: list[str]) -> dict[str, list[dict[str, str]]]:
    return {"keys": [{"page": name} for name in names]}


def _range(number: int) -> str:
    start = AT + timedelta(minutes=number)
    bounds = (utc_text(bound) for bound in (start, start + timedelta(minutes=100)))
    return f"/views/{SMALL}/rows?from={next(bounds)}&to={next(bounds)}"


def _statement(number: int) -> dict[str, str]:
    """A different one each time."""
    start = AT + timedelta(minutes=number)
    time = f"TIMESTAMPTZ '{start.isoformat()}'"
    where = f"window_start >= {time} AND window_start < {time} + INTERVAL 1 HOUR"
    return {"statement": f"SELECT sum(hits) AS hits, sum(bytes) AS bytes FROM {SMALL} WHERE {where}"}
