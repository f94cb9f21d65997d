"""Answers of a server in a Python program: `with client("http://127.0.0.1:8640", token) as asked: asked.rows("sales")`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from ssl import SSLContext
from threading import local
from typing import Any, Final, Unpack
from urllib.parse import quote

import httpx
import msgspec
import pyarrow as pa

from tandem.serving.client.answers import RecordPlace, RowsPage, SentEvents, ServerAnswer
from tandem.serving.client.event_stream import ServerChanges, lines_of, parse_events
from tandem.serving.client.parameters import AnswerOptions, Key, Parameters, row_parameters, text_of, waiting_parameters
from tandem.serving.http.protocol.media_types import ARROW, JSON, NDJSON
from tandem.serving.read.outputs import Late, Output
from tandem.views.errors import TandemError

_TIMEOUT_S: Final = 60.0
_BYTES: Final = "application/octet-stream"
_MONOTONIC: Final = "Tandem-Monotonic"


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


@dataclass(frozen=True)
class Client:
    """A server's views and sources, for any number of threads. Refused requests raise Refused; connection errors,
    httpx.HTTPError.
    """

    http: httpx.Client

    def views(self, *, release: int | None = None) -> list[dict[str, Any]]:
        """The views that the token may read."""
        found: list[dict[str, Any]] = self._get("/views", waiting_parameters(release=release)).json()["views"]
        return found

    def view(self, name: str, *, release: int | None = None) -> dict[str, Any]:
        """A view's definition, columns and state."""
        found: dict[str, Any] = self._get(f"/views/{quote(name, safe='')}", waiting_parameters(release=release)).json()
        return found

    def rows(
        self, view: str, keys: Mapping[str, Key] | None = None, *, page: int = 1000, **asked: Unpack[AnswerOptions]
    ) -> RowsPage:
        """All rows of a question, from one snapshot; they are requested in pages of this many rows; AnswerOptions may choose."""
        pages = [got.json() for got in self._pages(view, row_parameters(keys, asked), page, JSON)]
        found = [row for one in pages for row in one["rows"]]
        return RowsPage(found, pages[0]["total"], pages[0]["provenance"])

    def arrow(
        self, view: str, keys: Mapping[str, Key] | None = None, *, page: int = 1000, **asked: Unpack[AnswerOptions]
    ) -> pa.Table:
        """The rows as a typed table; its schema's metadata has the provenance."""
        pages = self._pages(view, row_parameters(keys, asked), page, ARROW)
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
        asked = row_parameters(keys, {} if at is None else {"at": at})
        asked |= {} if window is None else {"window": text_of(window)}
        asked |= waiting_parameters(min_position=min_position, release=release)
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
        asked = row_parameters(keys, {}) | ({} if window is None else {"window": text_of(window)})
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
        asked = row_parameters(keys, {}) | ({} if window is None else {"window": text_of(window)})
        asked |= {"before": text_of(before), "after": text_of(after)}
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
        # A truth value stays one, so that it finds no text that is written like it.
        named = [
            {name: value if value is None or isinstance(value, bool) else text_of(value) for name, value in key.items()}
            for key in keys
        ]
        body = {
            "keys": named,
            **({"measures": list(measures)} if measures else {}),
            **({} if at is None else {"at": text_of(at)}),
        }
        asked = waiting_parameters(min_position=min_position, release=release)
        got = _checked(self.http.post(f"/views/{quote(view, safe='')}/lookup", params=asked, json=body)).json()
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
        asked = row_parameters(keys, {"measures": measures}) | waiting_parameters(release=release)
        usual = {"output": "update", "late": "send", "when": "commit"}
        sends = {"since": since, "where": where, "output": output, "late": late, "when": when}
        asked |= {name: value for name, value in sends.items() if value is not None and value != usual.get(name)}
        with self.http.stream("GET", f"/views/{quote(view, safe='')}/changes", params=asked) as answer:
            if answer.status_code != httpx.codes.OK:
                answer.read()
            for update in parse_events(lines_of(_checked(answer).iter_bytes())):
                if update.over is not None:
                    raise Refused(httpx.codes.GONE, update.over)
                yield update

    def sql(self, statement: str, *, min_position: str | None = None, release: int | None = None) -> RowsPage:
        """The rows of one SELECT over the views that the token may read."""
        got = self._select(statement, JSON, waiting_parameters(min_position=min_position, release=release)).json()
        return RowsPage(got["rows"], got["total"], got["provenance"])

    def sql_answer(self, statement: str, *, min_position: str | None = None, release: int | None = None) -> ServerAnswer:
        """The rows of one SELECT as an answer that becomes an Arrow, pandas or Polars table, and that a notebook shows."""
        got = self._select(statement, ARROW, waiting_parameters(min_position=min_position, release=release))
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
