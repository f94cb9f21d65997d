"""A receiver that drops the ids it has folds a webhook sink's messages to the query at their token, whatever it answers.

A process is killed before and after each commit and each request; the next one sends what is left, with the same ids.
"""

import base64
import hashlib
import hmac
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tandem.infra.settings import Settings
from tandem.infra.settings.toml_tables.sinks import SinkSettings
from tandem.serving.read.row_filter import RowsWanted
from tandem.serving.sinks.changes_to_send import SinkStep, follow, token_of_target
from tandem.serving.sinks.definition import check_sink
from tandem.serving.sinks.outbox import Outbox, OutboxDocument, OutboxMessage
from tandem.serving.sinks.posting import MOST_RETRY_AFTER_S, Undelivered, wait_s
from tandem.serving.sinks.target import SinkInProject, SinkRefused
from tandem.serving.sinks.webhook import WebhookTarget, open_webhook
from tandem.views.errors import DefinitionError, TandemError
from tandem.views.kernel.rows import to_rows
from tandem.views.sinks.sink import Sink
from tandem.views.sinks.webhook import webhook
from tests.killed import Killed, Life
from tests.serving.sinks.alerts.receiver import Heard, receiver
from tests.serving.sinks.past import EVERYTHING, MANY, Past, connected, roll_back
from tests.serving.two_releases import applied, build, edited, promote
from tests.serving.world import World, hit

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef").decode()
APPEND, CHANGES = RowsWanted(output="append"), RowsWanted(output="changes")
Rows = dict[str, Any]


@pytest.fixture
def heard() -> Iterator[Heard]:
    with receiver() as found:
        yield found


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    for partition in (0, 1):
        made.append(partition, hit("/a", 1, minute=-300), hit(None, 2, minute=-300), hit("/a", 3))
    made.trigger()
    return made


def target_of_world(
    world: World, heard: Heard, *, address: str = "$HOOK", secret: str = "$WEBHOOK_SECRET", timeout_s: int = 10
) -> WebhookTarget:
    settings = msgspec.structs.replace(Settings(state=str(world.state)), sinks=SinkSettings(timeout_s=timeout_s))
    sink = Sink(world.project.views["per_page"], to=webhook(address, secret=secret), name="out")
    environ = {"HOOK": f"{heard.address}/rows?of=us", secret[1:]: SECRET}
    return open_webhook(SinkInProject(sink, world.project, settings, world.folder), environ, lambda: world.clock)


def send(world: World, heard: Heard, wanted: RowsWanted) -> list[SinkStep]:
    """Follow once, as a process of its own; then the messages fold to the query."""
    published, target = connected(world, "per_page"), target_of_world(world, heard)
    steps = list(follow(published, target, wanted))
    agrees(world, heard, wanted)
    assert token_of_target(target) == ([step.token for step in steps] or [token_of_target(target)])[-1]
    return steps


def agrees(world: World, heard: Heard, wanted: RowsWanted) -> None:
    now = connected(world, "per_page").now()
    answer = now.scan().table
    rows = [row for row in to_rows(now.view, answer) if wanted.where is None or row["n"] > 1]
    rows = [row for row in rows if wanted.output != "append" or row["window_state"] == "final"]
    expected = [{column: value for column, value in row.items() if column != "window_state"} for row in rows]
    assert sorted(map(str, fold(heard, wanted.output).values())) == sorted(map(str, expected))


def fold(heard: Heard, output: str) -> Rows:
    """The rows of a receiver that drops a message whose id it has; a repeated id is the same message."""
    rows, bodies = Rows(), dict[str, bytes]()
    for headers, body in heard.requests:
        message, number = json.loads(body), headers["webhook-id"]
        assert bodies.setdefault(number, body) == body
        assert number == message["id"]
    for message in map(json.loads, bodies.values()):
        place, kind, value = json.dumps(message["key"]), message["kind"], message["value"]
        match kind:
            case "truncate":
                rows = {}
            case "change":
                assert rows.get(place) == value["before"]
                rows[place] = value["after"]
            case "final":
                assert place not in rows, "a row is sent once"
                rows[place] = value
            case _:
                assert (kind in ("gone", "withdrawn")) == (value is None)
                rows[place] = value
        assert (kind in ("final", "late", "withdrawn")) == (output == "append")
        rows = {at: row for at, row in rows.items() if row is not None}
    if bodies:
        assert message["last"], "the newest message completes its token"
    return rows


@pytest.mark.each_run("changes")
@pytest.mark.parametrize("wanted", [EVERYTHING, MANY, CHANGES], ids=["update", "where", "changes"])
def test_messages_to_a_webhook_follow_any_order_of_what_happens(tmp_path: Path, heard: Heard, wanted: RowsWanted) -> None:
    chance, past = random.Random(3), Past(World(tmp_path))
    for _ in range(8):
        past.happen(chance)
        if chance.random() < 0.7:
            send(past.world, heard, wanted)
    send(past.world, heard, wanted)
    assert send(past.world, heard, wanted) == []
    assert len(heard.ids) == len(set(heard.ids)), "nothing is sent twice without a fault"
    numbers = [each["number"] for each in heard.documents]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_final_rows_are_sent_once_to_a_webhook(world: World, heard: Heard) -> None:
    (step,) = send(world, heard, APPEND)
    assert (step.rows, step.gone) == (2, 0)
    world.append(1, hit("/a", 7, minute=-300))
    world.trigger()
    send(world, heard, APPEND)
    assert [each["kind"] for each in heard.documents] == ["final", "final", "late"]
    with pytest.raises(SinkRefused, match="is of other rows or of another meaning"):
        send(world, heard, RowsWanted(where="n > 1", output="append"))


@pytest.mark.slow
def test_another_meaning_and_another_target_begin_with_a_complete_snapshot(world: World, heard: Heard) -> None:
    world.recompute(world.end)
    send(world, heard, EVERYTHING)
    ready = applied(world, edited("a measure renamed"))
    build(ready, ready.end)
    promote(ready)
    (step,) = send(world, heard, EVERYTHING)
    assert step.compared
    roll_back(world)
    (step,) = send(world, heard, EVERYTHING)
    assert step.compared
    assert [each["kind"] for each in heard.documents].count("truncate") == 3
    assert len(heard.ids) == len(set(heard.ids)), "a token that comes again has other numbers"
    assert target_of_world(world, heard, address=heard.address).token() is None


def test_another_secret_is_of_the_same_receiver(world: World, heard: Heard) -> None:
    heard.answers = [204, 500]
    with pytest.raises(Undelivered):
        list(follow(connected(world, "per_page"), target_of_world(world, heard), APPEND))
    list(follow(connected(world, "per_page"), target_of_world(world, heard, secret="$OTHER"), APPEND))
    agrees(world, heard, APPEND)


def test_a_message_is_signed_as_standard_webhooks_says(world: World, heard: Heard) -> None:
    send(world, heard, CHANGES)
    assert len(heard.requests) == 4
    for headers, body in heard.requests:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        expected = base64.b64encode(hmac.new(b"0123456789abcdef", signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
        assert headers["webhook-timestamp"] == str(int(world.clock.timestamp()))


@pytest.mark.each_run("500*", "429*", "503 Wed*", "drop*")
@pytest.mark.parametrize(
    ("answer", "fault", "wait"),
    [
        (500, "answered 500", 1),
        (307, "answered 307, a redirect, which is not followed", 1),
        ("429 30", "answered 429", 30),
        ("503 Fri, 31 Dec 9999 23:59:59 GMT", "answered 503", MOST_RETRY_AFTER_S),
        ("503 soon", "answered 503", 1),
        ("503 Wed, 31 Dec 2025 23:59:59 +99999999999999999", "answered 503", 1),
        ("hang", "has not answered within 1 s", 1),
        ("drip", "has not answered within 1 s", 1),
        ("drop", "cannot be asked", 1),
    ],
)
def test_a_receiver_that_fails_gets_the_same_messages_later(
    world: World, heard: Heard, answer: int | str, fault: str, wait: float
) -> None:
    heard.answers = [204, answer]
    with pytest.raises(Undelivered) as refused:
        list(follow(connected(world, "per_page"), target_of_world(world, heard, timeout_s=1), EVERYTHING))
    assert fault in str(refused.value)
    assert "rows" not in str(refused.value), "a path may be a secret"
    assert wait_s(refused.value, 1) == wait
    world.append(0, hit("/b", 5))
    world.trigger()
    send(world, heard, EVERYTHING)
    assert [heard.ids.count(number) for number in heard.ids[:3]] == [1, 2, 2]


def test_a_lost_outbox_repeats_no_id(world: World, heard: Heard) -> None:
    send(world, heard, EVERYTHING)
    outbox = target_of_world(world, heard).outbox
    outbox.change(lambda _: OutboxDocument())
    world.clock = world.clock.replace(minute=world.clock.minute + 1)
    send(world, heard, EVERYTHING)
    assert len(heard.ids) == len(set(heard.ids)) == 8


class MortalOutbox(Outbox):
    life: Life

    def change(self, derive: Callable[[OutboxDocument], OutboxDocument]) -> OutboxDocument:
        self.life.passes()
        document = super().change(derive)
        self.life.passes()
        return document


class MortalTarget(WebhookTarget):
    life: Life

    def _send(self, message: OutboxMessage) -> None:
        self.life.passes()
        super()._send(message)
        self.life.passes()


def live(world: World, heard: Heard, wanted: RowsWanted, life: Life) -> None:
    """One process, which is killed at a point."""
    safe = target_of_world(world, heard)
    outbox = MortalOutbox(safe.outbox.document, safe.outbox._handle)
    target = MortalTarget(safe.name, safe.view, safe.address, safe.key, outbox, safe.settings, safe.clock)
    outbox.life = target.life = life
    list(follow(connected(world, "per_page"), target, wanted))


@pytest.mark.each_run("append-12")
@pytest.mark.parametrize(
    ("wanted", "kills"),
    [
        (EVERYTHING, 12),
        (APPEND, 12),
        *((wanted, 100) for wanted in (EVERYTHING, MANY, APPEND, CHANGES)),
    ],
    ids=lambda value: getattr(value, "output", value),
)
def test_a_webhook_sink_that_is_killed_anywhere_loses_nothing(
    tmp_path: Path, heard: Heard, wanted: RowsWanted, kills: int
) -> None:
    chance, world, hour, killed = random.Random(kills), World(tmp_path), -2 * kills, 0
    while killed < kills:
        hour += 1
        world.append(0, *(hit(chance.choice(("/a", "/b", None)), n, minute=60 * (hour + n - 2)) for n in range(3)))
        world.trigger()
        try:
            live(world, heard, wanted, Life(chance.randint(0, 9)))
        except Killed:
            killed += 1
    send(world, heard, wanted)


def test_of_two_processes_the_second_sends_nothing_of_its_step(world: World, heard: Heard) -> None:
    first, second = target_of_world(world, heard), target_of_world(world, heard)
    list(follow(connected(world, "per_page"), first, EVERYTHING))
    requests = len(heard.requests)
    with pytest.raises(TandemError, match="has a newer version"):
        list(follow(connected(world, "per_page"), second, EVERYTHING))
    assert len(heard.requests) == requests


@pytest.mark.parametrize(
    ("address", "secret", "sentence"),
    [
        ("ftp://host/", "$S", "'ftp://host/' is not an address"),
        ("https://me:pw@host/", "$S", "has a login; give the address as a variable"),
        ("", "$S", "expected an address such as"),
        ("https://host/", "pw", "a definition has no secret"),
        ("http://127.0.0.1:8640/v1/events", "$S", "is the project's own server, on port 8640"),
    ],
)
def test_a_webhook_that_cannot_work_is_refused(world: World, address: str, secret: str, sentence: str) -> None:
    def check() -> None:
        sink = Sink(world.project.views["per_page"], to=webhook(address, secret=secret), name="out")
        check_sink(SinkInProject(sink, world.project, Settings(), world.folder))

    with pytest.raises((DefinitionError, SinkRefused)) as refused:
        check()
    assert sentence in str(refused.value)
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"WEBHOOK_SECRET": "x"}, "the environment has no variable HOOK with the address of the webhook"),
        ({"HOOK": "http://host/"}, "the environment has no variable WEBHOOK_SECRET with the secret of the webhook"),
        ({"HOOK": "http://a:pw@host/", "WEBHOOK_SECRET": "x"}, "variable $HOOK has a login in its address"),
        ({"HOOK": "host/pw", "WEBHOOK_SECRET": "x"}, "variable $HOOK is not an address such as https://example.org/rows"),
        ({"HOOK": "http://host/a?pw ", "WEBHOOK_SECRET": "x"}, "variable $HOOK is not an address"),
        ({"HOOK": "http://host/ü-pw", "WEBHOOK_SECRET": "x"}, "variable $HOOK is not an address"),
        ({"HOOK": "http://host/", "WEBHOOK_SECRET": "whsec_"}, "is whsec_ without a key"),
        ({"HOOK": "http://host/", "WEBHOOK_SECRET": "whsec_%"}, "begins with whsec_, and the rest of it is not base64"),
    ],
)
def test_an_environment_that_cannot_work_is_one_sentence(world: World, environ: dict[str, str], sentence: str) -> None:
    sink = Sink(world.project.views["per_page"], to=webhook("$HOOK"), name="out")
    defined = SinkInProject(sink, world.project, Settings(state=str(world.state)), world.folder)
    with pytest.raises(TandemError) as refused:
        open_webhook(defined, environ, lambda: world.clock)
    assert sentence in str(refused.value)
    assert "pw" not in str(refused.value)
