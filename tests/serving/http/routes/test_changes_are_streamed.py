"""Changes as server-sent events: each once, from any token, only of visible rows, while the token is valid."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from types import FrameType
from typing import Any

import httpx
import pytest

from tandem.serving import connect
from tandem.serving.access import tokens
from tandem.serving.changes import HEARTBEAT_S, Changes, ViewFollower
from tandem.serving.client import server_client as clients
from tandem.serving.client.event_stream import ServerChanges
from tandem.serving.memory.cached_view import SECONDS
from tandem.serving.memory.changes_token import ChangesToken
from tests.serving.http.served import Served, serving
from tests.serving.world import DEFINITIONS, NOON, World, forty_hits, hit

PATH = "/views/per_page/changes"
MINUTES = DEFINITIONS.replace(
    "VIEWS = (",
    'minutes = View(source=hits, keys={"page": "page"}, window=tumbling(minutes=1), measures={"n": count()})\nVIEWS = (minutes, ',
)


@pytest.fixture
def world(tmp_path: Any) -> World:
    return forty_hits(tmp_path)


@contextmanager
def stream(address: str, secret: str, **how: Any) -> Iterator[Iterator[dict[str, Any]]]:
    """The events of a stream, each with its id, kind and data; comments are left out."""
    headers = {"Authorization": f"Bearer {secret}", **how.pop("headers", {})}
    with httpx.stream("GET", f"{address}{PATH}", headers=headers, timeout=60, **how) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield events(answer)


def events(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    event: dict[str, Any] = {}
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if line.startswith(":"):
            continue
        if line:
            event[name] = json.loads(value) if name == "data" else value
        elif event:
            yield event
            event = {}


def more(world: World, *values: bytes) -> None:
    world.append(1, *values)
    world.trigger()


def pages(event: dict[str, Any]) -> dict[str, int]:
    return {row["page"]: row["n"] for row in event["data"]["rows"]}


def test_each_change_arrives_once_and_any_token_continues(world: World) -> None:
    served = Served(world)
    secret = served.token("reader")
    with serving(served) as address:
        with stream(address, secret) as found:
            # It stands at what was counted when it was answered.
            more(world, hit("/later", 5), hit("/new", 1))
            first = next(found)
            assert (first["event"], pages(first)) == ("rows", {"/later": 11, "/new": 1})
            more(world, hit("/new", 2))
            second = next(found)
            assert pages(second) == {"/new": 2}
            assert second["data"]["provenance"]["publication"] == 2
        more(world, hit("/late", 3))
        for how in ({"params": {"since": first["id"]}}, {"headers": {"Last-Event-ID": first["id"]}}):
            with stream(address, secret, **how) as found:
                assert pages(next(found)) == {"/new": 2, "/late": 1}
        with stream(address, secret, params={"since": second["id"]}) as found:
            assert pages(next(found)) == {"/late": 1}


def test_a_filter_sends_the_rows_that_match_and_takes_back_the_others(world: World) -> None:
    served = Served(world)
    with serving(served) as address, clients.client(address, served.token("reader")) as asked:
        with stream(address, served.token("raw"), params={"key.page": "/b", "measures": "largest"}) as updates:
            more(world, hit("/b", 2))
            first = next(updates)
            window = {"window_start": "2026-11-01T12:00:00Z", "window_end": "2026-11-01T13:00:00Z", "window_state": "open"}
            assert first["data"]["rows"] == [{"page": "/b", **window, "largest": 2}]
            more(world, hit("/b", 1), hit("/later", 1))  # the largest of /b is the same
            more(world, hit("/b", 3), hit("/a", 1))
            assert next(updates)["data"]["rows"] == [{"page": "/b", **window, "largest": 3}]
        (entered,) = next(asked.changes("per_page", since=first["id"], where="n > 10 AND page IN ('/a', '/later')")).rows
        assert (entered["page"], entered["n"]) == ("/later", 11)
        update = next(asked.changes("per_page", {"page": "/b"}, since=first["id"], where="n < 3"))
        assert ([*update.rows], [row["page"] for row in update.gone]) == ([], ["/b"])
        assert update.token > ""


@pytest.mark.parametrize(
    ("where", "refusal"),
    [
        ("len(repeat(page, 100000)) > 3", "has 'len', which a server does not compute in conditions"),
        ("CAST(page AS TIMESTAMPTZ) > window_start", "has cast"),
        ("page LIKE '%a%'", "has '~~'"),
        ("n > (SELECT 1)", "has subquery"),
        ("n = 1 OR " * 60 + "n = 1", "has 545 characters; a server computes conditions of at most 400"),
        ("- " * 190 + "n > 1", "nested too deeply"),
        ("hits > 1", "names a field 'hits'"),
    ],
)
def test_a_condition_of_a_stranger_is_computed_only_if_its_cost_is_bounded(world: World, where: str, refusal: str) -> None:
    served = Served(world)
    with serving(served) as address, clients.client(address, served.token("reader")) as asked:
        with pytest.raises(clients.Refused) as refused:
            next(asked.changes("per_page", where=where))
        assert refusal in str(refused.value)
        assert refused.value.status == 400


@pytest.fixture
def minutes(tmp_path: Any) -> World:
    made = World(tmp_path, definitions=MINUTES)
    made.append(0, hit("/a", 1), hit("/b", 1), hit("/b", 2, minute=20))
    made.append(1, hit("/b", 3, minute=20))
    made.trigger()
    return made


def compared(update: ServerChanges | Changes, output: str) -> dict[str, Any]:
    """What an update of an output sends by either way, as a server's client has it."""
    if isinstance(update, ServerChanges):
        late, rows, gone, changes = update.late, update.rows, len(update.gone), update.changes
    else:
        late = update.late if isinstance(update.late, int) else update.late.rows()
        rows, gone, changes = update.rows.rows(), update.gone.num_rows, update.envelopes() if output == "changes" else []
    return {"changes": changes} if output == "changes" else {"rows": rows, "late": late, "gone": gone}


@pytest.mark.parametrize(
    ("output", "late"),
    [("append", "send"), ("append", "drop"), ("changes", "send")],
)
def test_outputs_over_http_are_those_of_a_program(minutes: World, output: Any, late: Any) -> None:
    served = Served(minutes)
    steps = [[hit("/a", 4)], [hit("/c", 1, minute=3), hit("/a", 5)], [hit("/b", 6, minute=45)]]
    with (
        serving(served) as address,
        clients.client(address, served.token("reader")) as asked,
        connect(minutes.folder, every_s=None) as connection,
    ):
        ours = connection.view("minutes").changes(output=output, late=late)
        theirs = asked.changes("minutes", output=output, late=late)
        last = ""
        for step in [[], *steps]:
            if step:
                minutes.append(0, *step)
                minutes.append(1, hit("/b", 1, minute=45))
                minutes.trigger()
                connection.refresh()
            update, known = next(theirs), next(ours)
            assert compared(update, output) == compared(known, output)
            assert any(compared(update, output).values())
            if last:
                again = next(asked.changes("minutes", since=last, output=output, late=late))
                assert compared(again, output) == compared(update, output), "the token of the step before"
            last = update.token


def test_a_step_of_several_commits_is_one_event_with_each_row_once(minutes: World) -> None:
    served = Served(minutes)
    with serving(served) as address, clients.client(address, served.token("reader")) as asked:
        updates = asked.changes("minutes", output="changes", when="count:3")
        rows = next(updates).changes
        for number in range(3):
            more(minutes, hit("/b", number))
        (change,) = next(updates).changes
        assert (len(rows), change["op"], change["before"]["n"], change["after"]["n"]) == (3, "u", 1, 4)
        late = asked.changes("minutes", output="append", late="drop", when="every:60s")
        next(late)
        minutes.appended += timedelta(minutes=1)
        more(minutes, hit("/a", 1, minute=45))
        minutes.append(0, hit("/a", 1, minute=45))
        minutes.appended += timedelta(minutes=1)
        more(minutes, hit("/a", 1, minute=45))
        assert [row["n"] for row in next(late).rows] == [2]


@pytest.mark.parametrize(
    ("view", "asked", "refusal"),
    [
        (
            "minutes",
            {"when": "every:2h"},
            "when=every:2h waits for too long: a server keeps what a reader lacks for at most 60 s",
        ),
        ("minutes", {"when": "often"}, "invalid when=often; write commit, every:10s, delay:10s or count:100"),
        ("ever", {"output": "append"}, "rows of view 'ever' are of all time; use update or changes"),
        ("minutes", {"output": "update", "late": "drop"}, "late=drop is for the output append; output 'update' has no late rows"),
        ("minutes", {"output": "complete"}, "output"),
    ],
)
def test_an_output_that_cannot_be_is_refused(minutes: World, view: str, asked: Any, refusal: str) -> None:
    served = Served(minutes)
    with serving(served) as address, clients.client(address, served.token("reader")) as client:
        with pytest.raises(clients.Refused) as refused:
            next(client.changes(view, **asked))
        assert refusal in str(refused.value)
        assert refused.value.status == 400


def test_an_expired_token_of_changes_is_gone_and_without_one_all_rows_come_first(minutes: World) -> None:
    served = Served(minutes)
    with serving(served) as address, clients.client(address, served.token("reader")) as asked:
        known = ChangesToken.parse(next(asked.changes("minutes", output="changes")).token)
        with pytest.raises(clients.Refused, match="scan the view again") as refused:
            next(asked.changes("minutes", since=str(replace(known, version=known.version + 7)), output="changes"))
        assert refused.value.status == 410
        first = next(asked.changes("minutes", output="changes"))
        assert [change["op"] for change in first.changes] == ["r"] * 3
        assert [{**change["after"], "window_state": ""} for change in first.changes] == [
            {**row, "window_state": ""} for row in asked.rows("minutes").rows
        ]


def test_a_token_restricted_to_rows_gets_outputs_of_these_alone(minutes: World) -> None:
    served = Served(minutes)
    secret = served.token("bound", rows=["page=/b"])
    with serving(served) as address, clients.client(address, secret) as asked:
        updates = asked.changes("minutes", output="append", late="drop")
        assert [row["page"] for row in next(updates).rows] == ["/b"]
        minutes.append(0, hit("/a", 9), hit("/b", 9))
        minutes.append(1, hit("/b", 1, minute=45))
        minutes.trigger()
        assert next(updates).late == 1, "of the two late changes"


def test_the_first_rows_of_an_output_do_not_take_the_lane(minutes: World) -> None:
    served, threads = Served(minutes), []

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is ViewFollower.look.__code__:
            threads.append(threading.current_thread().name.partition("_")[0])

    threading.setprofile(seen)  # of threads that begin after this
    try:
        with serving(served) as address, clients.client(address, served.token("reader")) as asked:
            updates = asked.changes("minutes", output="changes")
            next(updates)
            assert threads == ["answering"]
            more(minutes, hit("/a", 9))
            next(updates)
            assert {*threads[1:]} == {"lane"}
    finally:
        threading.setprofile(None)


def test_a_token_moves_on_while_nothing_matches(world: World) -> None:
    served = Served(world)
    with serving(served) as address, stream(address, served.token("reader"), params={"where": "n > 1000"}) as updates:
        more(world, hit("/b", 2))
        ends = [world.end]
        served.seconds += HEARTBEAT_S
        more(world, hit("/b", 2))
        moved = next(updates)
        assert moved.keys() == {"id"}
        assert ChangesToken.parse(moved["id"]).end in (*ends, world.end)
        assert served.server.lane.cache.store.recent.get(moved["id"]) is not None


def test_a_token_restricted_to_rows_sees_only_their_changes(world: World) -> None:
    served = Served(world)
    with serving(served) as address, stream(address, served.token("bound", rows=["page=/b"])) as found:
        more(world, hit("/a", 5), hit("/c", 1))
        more(world, hit("/a", 5), hit("/b", 1))
        assert pages(next(found)) == {"/b": 1}


def test_a_stream_ends_with_the_rights_of_its_token(world: World) -> None:
    served = Served(world, {"wait_s": 1})
    secret = served.token("reader")
    with serving(served) as address, stream(address, secret) as found:
        tokens.revoke(served.world.tables, "reader", now=NOON)
        served.seconds += tokens.FRESH_S
        assert next(found) == {"event": "over", "data": {"detail": "the token is expired or revoked"}}
        assert next(found, None) is None


def test_an_invalid_token_is_refused(world: World) -> None:
    served = Served(world)
    headers = {"Authorization": f"Bearer {served.token('reader')}"}
    with serving(served) as address:
        assert httpx.get(f"{address}{PATH}", params={"since": "x"}, headers=headers, timeout=60).status_code == 400
        with stream(address, served.token("another")) as found:
            more(world, hit("/later", 5))
            token = next(found)["id"]
        world.recompute(world.end)
        more(world, hit("/later", 6))
        with stream(address, served.token("a third"), params={"since": token}) as found:
            assert pages(next(found)) == {"/later": 12}  # over another publication
        known = ChangesToken.parse(token)
        gone = str(replace(known, version=known.version + 7))
        answer = httpx.get(f"{address}{PATH}", params={"since": gone}, headers=headers, timeout=60)
        assert (answer.status_code, "scan the view again" in answer.text) == (410, True)


def test_what_a_client_has_is_kept_from_when_its_stream_ends(world: World) -> None:
    """Its last rows may have come long before, and nothing since."""
    served = Served(world)
    recent = served.server.lane.cache.store.recent
    with serving(served) as address:
        with stream(address, served.token("reader")) as found:
            more(world, hit("/later", 5))
            token = next(found)["id"]
            recent.clock = lambda: time.monotonic() + 2 * SECONDS
            assert recent.get(token) is None
        ends = time.monotonic() + 60
        while recent.get(token) is None:
            assert time.monotonic() < ends
            more(world, hit("/later", 6))  # the server finds that the client has gone when it writes


def test_a_client_restricted_to_rows_comes_back_after_changes_that_it_does_not_see(world: World) -> None:
    """Its server keeps what it has seen, and not what others have seen since."""
    served = Served(world)
    secret, recent = served.token("bound", rows=["page=/b"]), served.server.lane.cache.store.recent
    with serving(served) as address:
        with stream(address, secret) as found:
            more(world, hit("/b", 5))
            token = served.server.seal.open(next(found)["id"])
            recent.clock = lambda: time.monotonic() + 2 * SECONDS
            more(world, hit("/a", 5))
        ends = time.monotonic() + 60
        while recent.get(token) is None:
            assert time.monotonic() < ends
            more(world, hit("/a", 6))
            more(world, hit("/b", 6))  # the server finds that the client has gone when it writes
