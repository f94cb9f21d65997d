"""Answers of a server in a Python program: `with client("http://127.0.0.1:8640", token) as asked: asked.rows("sales")`."""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from ssl import SSLContext
from threading import local
from typing import Any, Final, NamedTuple, TypedDict, Unpack
from urllib.parse import quote

import httpx
import msgspec
import pyarrow as pa

from tandem.serving.http.event_stream import ServerChanges, parse_events
from tandem.serving.http.protocol.media_types import ARROW, JSON, NDJSON
from tandem.serving.read.outputs import Late, Output
from tandem.serving.read.provenance import Layer
from tandem.serving.read.tabular import SHOWN, Tabular, html_table, row_count
from tandem.views.errors import TandemError

Key = str | int | float | Decimal | bool | bytes | date | datetime | None
"""A value of a key, of the type that the view has for it; None is NULL."""

_TIMEOUT_S: Final = 60.0
_BYTES: Final = "application/octet-stream"
_MONOTONIC: Final = "Tandem-Monotonic"

Parameters = dict[str, str | list[str]]


class AnswerOptions(TypedDict, total=False):
    """The optional parameters of a question: windows that start in `[start, end)`, columns, layer, release, and freshness.

    `order` has columns, each with a minus if it descends; `min_position` is a position that `send` returns: the answer waits
    until it counts that, and is refused (504, with `retry_after`) if that takes too long. `release` is a ready or standing
    release, which answers as if it were promoted now. `at` gives the versions of a table that were valid then.
    """

    start: datetime
    end: datetime
    at: datetime
    measures: Sequence[str]
    order: Sequence[str]
    layer: Layer
    publication: int
    release: int
    min_position: str


class Refused(TandemError, code="request-refused"):
    """A refused request: the server's sentence, its `status`, and after how many seconds to try again, if the server says so.

    `records` is about sent events: which are invalid and why, or the outcome of each. `code` is that of the server's error.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        retry_after: float | None = None,
        records: Sequence[Mapping[str, Any]] = (),
        code: str = "",
    ) -> None:
        super().__init__(detail, code=code)
        self.status, self.retry_after, self.records = status, retry_after, tuple(records)


@dataclass(frozen=True, repr=False)
class RowsPage:
    """Rows as dicts, with their total and their provenance.

    After a lookup `absent` has the numbers of the keys without any row, and `hidden` those of the keys whose rows the token may
    not see, whether there are any or not.
    """

    rows: list[dict[str, Any]]
    total: int
    provenance: Mapping[str, Any]
    absent: tuple[int, ...] = ()
    hidden: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"<RowsPage {row_count(len(self.rows))}>"

    def _repr_html_(self) -> str:
        names = list(self.rows[0]) if self.rows else []
        shown = [[row.get(name) for name in names] for row in self.rows[:SHOWN]]
        left_out = f"; the first {SHOWN} are shown" if len(self.rows) > SHOWN else ""
        return html_table(names, shown, f"{row_count(len(self.rows))}{left_out}")


@dataclass(frozen=True, repr=False)
class ServerAnswer(Tabular):
    """Rows as a typed table, from one snapshot; `provenance` names the positions that they count."""

    question: str
    table: pa.Table

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What the rows count."""
        document: dict[str, Any] = msgspec.json.decode(self.table.schema.metadata[b"provenance"])
        return document

    def caption(self) -> str:
        """The question, number of rows, and how exact they are."""
        return f"{self.question}: {row_count(self.table.num_rows)}; {self.provenance['exactness']['says']}"


class RecordPlace(NamedTuple):
    """The position of a record in the log; no offset if the broker only reports that it has the record already."""

    topic_id: str
    partition: int
    offset: int | None


@dataclass(frozen=True)
class SentEvents:
    """Events that are in the log: the position of each record, and the `min_position` of a question whose answer counts them."""

    places: tuple[RecordPlace, ...]
    min_position: str | None


@dataclass(frozen=True)
class Client:
    """A server's views and sources, for any number of threads. Refused requests raise Refused; connection errors,
    httpx.HTTPError.
    """

    http: httpx.Client

    def views(self, *, release: int | None = None) -> list[dict[str, Any]]:
        """The views that the token may read."""
        found: list[dict[str, Any]] = self._get("/views", _options(release=release)).json()["views"]
        return found

    def view(self, name: str, *, release: int | None = None) -> dict[str, Any]:
        """A view's definition, columns and state."""
        found: dict[str, Any] = self._get(f"/views/{quote(name, safe='')}", _options(release=release)).json()
        return found

    def rows(
        self, view: str, keys: Mapping[str, Key] | None = None, *, page: int = 1000, **asked: Unpack[AnswerOptions]
    ) -> RowsPage:
        """All rows of a question, from one snapshot; they are requested in pages of this many rows."""
        pages = [got.json() for got in self._pages(view, _parameters(keys, asked), page, JSON)]
        found = [row for one in pages for row in one["rows"]]
        return RowsPage(found, pages[0]["total"], pages[0]["provenance"])

    def arrow(
        self, view: str, keys: Mapping[str, Key] | None = None, *, page: int = 1000, **asked: Unpack[AnswerOptions]
    ) -> pa.Table:
        """The rows as a typed table; its schema's metadata has the provenance."""
        pages = self._pages(view, _parameters(keys, asked), page, ARROW)
        return pa.concat_tables(pa.ipc.open_stream(got.content).read_all() for got in pages)

    def answer(
        self, view: str, keys: Mapping[str, Key] | None = None, *, page: int = 1000, **asked: Unpack[AnswerOptions]
    ) -> ServerAnswer:
        """The rows as an answer that becomes an Arrow, pandas or Polars table, and that a notebook shows."""
        return ServerAnswer(view, self.arrow(view, keys, page=page, **asked))

    def row(
        self,
        view: str,
        keys: Mapping[str, Key],
        *,
        window: datetime | None = None,
        at: datetime | None = None,
        min_position: str | None = None,
        release: int | None = None,
    ) -> dict[str, Any] | None:
        """The row of one key and window, of a table that of a time with `at`; None if certainly nothing was counted.

        Refused (403) if the token may not see it.
        """
        asked = _parameters(keys, {} if at is None else {"at": at}) | ({} if window is None else {"window": _text(window)})
        asked |= _options(min_position=min_position, release=release)
        found: dict[str, Any] | None = self._get(f"/views/{quote(view, safe='')}/row", asked).json()["row"]
        return found

    def why(
        self,
        view: str,
        keys: Mapping[str, Key] | None = None,
        *,
        window: datetime | None = None,
        listed: int | None = None,
        publication: int | None = None,
    ) -> dict[str, Any]:
        """The events behind the row of one key and window, and the row computed again from them, as `tandem why --json` has them.

        `listed` is the number of events to list.
        """
        asked = _parameters(keys, {}) | ({} if window is None else {"window": _text(window)})
        options = {"listed": listed, "publication": publication}
        asked |= {name: str(value) for name, value in options.items() if value is not None}
        document: dict[str, Any] = self._get(f"/views/{quote(view, safe='')}/why", asked).json()
        return document

    def why_changed(
        self,
        view: str,
        keys: Mapping[str, Key] | None = None,
        *,
        before: int | datetime | str,
        after: int | datetime | str = "now",
        window: datetime | None = None,
    ) -> dict[str, Any]:
        """What made rows change between two moments, as `tandem why-changed --json` has it.

        A moment is the number of a publication, a time, `now`, or the text of a position or of a receipt.
        """
        asked = _parameters(keys, {}) | ({} if window is None else {"window": _text(window)})
        asked |= {"before": _text(before), "after": _text(after)}
        document: dict[str, Any] = self._get(f"/views/{quote(view, safe='')}/why-changed", asked).json()
        return document

    def lookup(
        self,
        view: str,
        keys: Sequence[Mapping[str, Key]],
        *,
        measures: Sequence[str] = (),
        at: datetime | None = None,
        min_position: str | None = None,
        release: int | None = None,
    ) -> RowsPage:
        """The rows of many keys at once, in their order; `at` gives the versions of a table that were valid then."""
        named = [{name: None if value is None else _text(value) for name, value in key.items()} for key in keys]
        body = {"keys": named, **({"measures": list(measures)} if measures else {}), **({} if at is None else {"at": _text(at)})}
        path = f"/views/{quote(view, safe='')}/lookup"
        got = _checked(self.http.post(path, params=_options(min_position=min_position, release=release), json=body)).json()
        return RowsPage(got["rows"], got["total"], got["provenance"], tuple(got["absent"]), tuple(got["hidden"]))

    def changes(
        self,
        view: str,
        keys: Mapping[str, Key] | None = None,
        *,
        since: str | None = None,
        where: str | None = None,
        measures: Sequence[str] = (),
        output: Output = "update",
        late: Late = "send",
        when: str = "commit",
        release: int | None = None,
    ) -> Iterator[ServerChanges]:
        """Rows as they change, from a token or from now on, while the server is there.

        `where` and `keys` choose rows: a row that leaves them is in `gone`. `output`, `late` and `when` are as in
        `PublishedView.changes`: with `append` an update has `late`, with `changes` it has `changes`. Raises Refused (410) once
        the token has expired: read all rows again, or begin these outputs without a token; and httpx.HTTPError if the
        connection breaks: continue from the last token.
        """
        asked = _parameters(keys, {"measures": measures}) | _options(release=release)
        usual = {"output": "update", "late": "send", "when": "commit"}
        sends = {"since": since, "where": where, "output": output, "late": late, "when": when}
        asked |= {name: value for name, value in sends.items() if value is not None and value != usual.get(name)}
        with self.http.stream("GET", f"/views/{quote(view, safe='')}/changes", params=asked) as answer:
            if answer.status_code != httpx.codes.OK:
                answer.read()
            for update in parse_events(_checked(answer).iter_lines()):
                if update.over is not None:
                    raise Refused(httpx.codes.GONE, update.over)
                yield update

    def sql(self, statement: str, *, min_position: str | None = None, release: int | None = None) -> RowsPage:
        """The rows of one SELECT over the views that the token may read."""
        got = self._select(statement, JSON, _options(min_position=min_position, release=release)).json()
        return RowsPage(got["rows"], got["total"], got["provenance"])

    def sql_answer(self, statement: str, *, min_position: str | None = None, release: int | None = None) -> ServerAnswer:
        """The rows of one SELECT as an answer that becomes an Arrow, pandas or Polars table, and that a notebook shows."""
        got = self._select(statement, ARROW, _options(min_position=min_position, release=release))
        return ServerAnswer("SQL", pa.ipc.open_stream(got.content).read_all())

    def sources(self) -> list[dict[str, Any]]:
        """The sources whose views the token may read, or to which it may send events."""
        found: list[dict[str, Any]] = self._get("/sources", {}).json()["sources"]
        return found

    def send(
        self,
        source: str,
        events: Iterable[Any] | bytes,
        *,
        idempotency_key: str | None = None,
        topic: str | None = None,
        kind: str | None = None,
    ) -> SentEvents:
        """Write events to a source's topic and wait until all replicas have them; otherwise Refused has the outcome of each.

        Events are dicts, event types, or anything that msgspec writes as JSON: one record each; a list if the source's records
        contain several. Bytes are one record as it is. Events that are sent again with the same key count once if the source's
        identity contains the key; do so after a connection error (httpx.HTTPError) and after status 503 or 504.
        """
        body, media = (events, _BYTES) if isinstance(events, bytes) else (b"".join(map(_line, events)), NDJSON)
        headers = {"Content-Type": media} | ({} if idempotency_key is None else {"Idempotency-Key": idempotency_key})
        named = {"topic": topic, "kind": kind}
        asked = {name: value for name, value in named.items() if value is not None}
        path = f"/sources/{quote(source, safe='')}/events"
        got = _checked(self.http.post(path, params=asked, content=body, headers=headers)).json()
        places = (RecordPlace(one["topic_id"], one["partition"], one["offset"]) for one in got["records"])
        return SentEvents(tuple(places), got["min_position"])

    def _pages(self, view: str, asked: Parameters, size: int, media: str) -> Iterator[httpx.Response]:
        following: Parameters = {}
        while True:
            got = self._get(f"/views/{quote(view, safe='')}/rows", {**asked, **following, "limit": str(size)}, accept=media)
            yield got
            cursor = got.json()["next"] if media == JSON else got.headers.get("Tandem-Next")
            if cursor is None:
                return
            following = {"cursor": cursor}

    def _select(self, statement: str, accept: str, asked: Parameters) -> httpx.Response:
        return _checked(self.http.post("/sql", params=asked, json={"statement": statement}, headers={"Accept": accept}))

    def _get(self, path: str, asked: Parameters, *, accept: str = JSON) -> httpx.Response:
        return _checked(self.http.get(path, params=asked, headers={"Accept": accept}))


@contextmanager
def client(
    address: str,
    token: str,
    *,
    verify: SSLContext | bool = True,
    timeout_s: float = _TIMEOUT_S,
    monotonic: bool = False,
) -> Iterator[Client]:
    """A client that keeps its connections until the context ends; `verify` says whose certificates it trusts.

    With `monotonic` no thread gets rows older than those that it got before, whichever of several servers answers; a server that
    is behind waits, and refuses (504, with `retry_after`) if that takes too long.
    """
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=address, headers=headers, verify=verify, timeout=timeout_s) as http:
        if monotonic:
            thread = _AnswersOfThread()
            http.event_hooks = {"request": [thread.send], "response": [thread.receive]}
        yield Client(http)


class _AnswersOfThread(local):
    """What a thread has seen of a server's answers, as the header of monotonic reads."""

    header = "1"

    def send(self, request: httpx.Request) -> None:
        request.headers[_MONOTONIC] = self.header

    def receive(self, response: httpx.Response) -> None:
        self.header = response.headers.get(_MONOTONIC, self.header)


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.status_code == httpx.codes.OK:
        return answer
    records: list[dict[str, Any]] = []
    code = ""
    try:
        document = answer.json()
        detail = str(document["detail"])
        records, code = document.get("records") or [], str(document.get("code", ""))
    except (ValueError, KeyError, TypeError):  # something between us and the server answered
        detail = f"{answer.url.path} answered {answer.status_code}"
    again = answer.headers.get("Retry-After", "")
    raise Refused(answer.status_code, detail, float(again) if again.isdecimal() else None, records, code)


def _line(event: Any) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def _parameters(keys: Mapping[str, Key] | None, asked: AnswerOptions) -> Parameters:
    given = keys or {}
    null = [name for name, value in given.items() if value is None]
    named: dict[str, Key] = {
        "from": asked.get("start"),
        "to": asked.get("end"),
        "at": asked.get("at"),
        "measures": ",".join(asked.get("measures", ())) or None,
        "order": ",".join(asked.get("order", ())) or None,
        "layer": asked.get("layer"),
        "publication": asked.get("publication"),
        "release": asked.get("release"),
        "min_position": asked.get("min_position"),
    }
    return {
        **{f"key.{name}": _text(value) for name, value in given.items() if value is not None},
        **({"null": null} if null else {}),
        **{name: _text(value) for name, value in named.items() if value is not None},
    }


def _options(*, min_position: str | None = None, release: int | None = None) -> Parameters:
    """The parameters of a question that waits until a position is counted, or that asks a release."""
    waiting: Parameters = {} if min_position is None else {"min_position": min_position}
    return waiting if release is None else {**waiting, "release": str(release)}


def _text(value: Key) -> str:
    """A value as a row in JSON has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return format(value, "f") if isinstance(value, Decimal) else str(value)
