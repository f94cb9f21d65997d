"""A receiver gets each edge signed, in order, at least once with the same id, whatever it answers; killed at any point too."""

import base64
import hashlib
import hmac
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import msgspec
import pytest

from tandem.infra.settings import AlertSettings
from tandem.serving.memory.store import Store
from tandem.serving.sinks.alerts import delivery
from tandem.serving.sinks.alerts.book import AlertDocument, Book, open_book
from tandem.serving.sinks.alerts.delivery import deliver, keep_delivering, receivers_of
from tandem.serving.sinks.alerts.episodes import Edge
from tandem.serving.sinks.alerts.webhook import Webhook, edge_document
from tandem.serving.sinks.posting import Undelivered, post
from tandem.views.errors import TandemError
from tests.killed import Killed, Life
from tests.serving.sinks.alerts.receiver import Heard, receiver
from tests.serving.sinks.alerts.test_edges_fold_to_what_holds import a_world, alert, fold, follower, look, more
from tests.serving.world import World, hit

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef").decode()


@pytest.fixture
def heard() -> Iterator[Heard]:
    with receiver() as found:
        yield found


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = a_world(tmp_path)
    made.append(0, hit("/a", 1, minute=1), hit("/b", 2, minute=1))
    made.trigger()
    return made


def webhook(world: World, heard: Heard, timeout_s: float = 10) -> Webhook:
    return Webhook(f"{heard.address}/hook?to=us", SECRET, timeout_s, "", lambda: world.clock)


def raised(world: World) -> Book:
    """An alert with two raised rows that are not sent."""
    of = follower(world, alert(world, "per_page", "n > 0", text="{page} is there"))
    of.receivers = ("webhook",)
    assert len(look(of)) == 2
    return of.book


def test_an_edge_is_signed_as_standard_webhooks_says(world: World, heard: Heard) -> None:
    book = raised(world)
    assert deliver([book], webhook(world, heard)) == 2
    assert book.document.unsent("webhook") == ()
    assert heard.documents == [json.loads(json.dumps(edge_document(each.edge))) for each in book.document.edges]
    for headers, body in heard.requests:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        expected = base64.b64encode(hmac.new(b"0123456789abcdef", signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
        assert headers["webhook-id"] == json.loads(body)["id"]
        assert int(headers["webhook-timestamp"]) == int(world.clock.timestamp())
    assert deliver([book], webhook(world, heard)) == 0
    assert len(heard.requests) == 2


@pytest.mark.each_run("500*", "drop*")
@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (500, "answered 500"),
        (404, "answered 404"),
        (307, "answered 307, a redirect, which is not followed"),
        ("hang", "has not answered within 0.3 s"),
        ("drip", "has not answered within 0.3 s"),
        ("drop", "cannot be asked"),
    ],
)
def test_what_is_not_acknowledged_is_sent_again_with_the_same_id(
    world: World, heard: Heard, answer: int | str, fault: str
) -> None:
    book = raised(world)
    heard.answers = [answer]
    with pytest.raises(Undelivered) as refused:
        deliver([book], webhook(world, heard, 0.3))
    assert fault in str(refused.value)
    assert "0123" not in str(refused.value)
    assert book.document.faults == {"webhook": str(refused.value)}
    assert len(book.document.unsent("webhook")) == 2
    again = open_book(world.tables, "busy")
    assert deliver([again], webhook(world, heard)) == 2
    assert again.document.faults == {}
    first, *ids = heard.ids
    assert ids == [edge.edge.id for edge in again.document.edges]
    assert first == ids[0]
    assert not [headers for headers, _ in heard.requests if "elsewhere" in headers.get("location", "")]


def test_a_receiver_that_is_down_is_tried_later_and_later(world: World, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "FIRST_S", 0.01)
    book, stop, warnings = raised(world), Event(), list[str]()
    heard.answers = [500, "503 Wed, 31 Dec 2025 23:59:59 +99999999999999999", "drop"]

    def warn(text: str) -> None:
        warnings.append(text)

    thread = Thread(target=keep_delivering, args=([book], webhook(world, heard), stop, Event(), warn))
    thread.start()
    try:
        for _ in range(600):
            if not book.document.unsent("webhook"):
                break
            stop.wait(0.05)
    finally:
        stop.set()
        thread.join(30)
    assert book.document.unsent("webhook") == ()
    assert [text.rpartition("in ")[2] for text in warnings] == ["0.01 s", "0.02 s", "0.04 s"]
    assert len(heard.ids) == 5
    assert len(set(heard.ids)) == 2


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"webhook": "http://127.0.0.1:1/"}, "needs a secret that signs"),
        ({"webhook": "ftp://127.0.0.1/", "secret": "x"}, "`alerts.webhook` is not an address"),
        ({"webhook": "http://me:pw@host/", "secret": "x"}, "`alerts.webhook` has a login in its address"),
        ({"webhook": "http://host/", "secret": "whsec_%"}, "begins with whsec_, and the rest of it is not base64"),
        ({"webhook": "http://host/", "secret": "whsec_"}, "is whsec_ without a key"),
        ({"webhook": "host/pw", "secret": "x"}, "`alerts.webhook` is not an address"),
        ({"webhook": "http://host/a pw", "secret": "x"}, "`alerts.webhook` is not an address"),
        ({"alertmanager": "9093"}, "`alerts.alertmanager` is not an address"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(world: World, settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(TandemError) as refused:
        receivers_of(msgspec.convert(settings, AlertSettings), lambda: world.clock)
    assert sentence in str(refused.value)
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_without_authorities_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "authorities.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(Undelivered, match=r"authorities\.pem, the file of trusted authorities, cannot be read: "):
        post("https://127.0.0.1:1/", b"", {}, timeout_s=1, ca_file=str(path))


class MortalBook(Book):
    """A book whose process may end before and after each commit."""

    life: Life

    def change(self, derive: Callable[[AlertDocument], AlertDocument]) -> AlertDocument:
        self.life.passes()
        document = super().change(derive)
        self.life.passes()
        return document


@dataclass(frozen=True)
class MortalWebhook:
    """A webhook whose process may end before and after each request."""

    webhook: Webhook
    life: Life
    name: str = "webhook"

    def send(self, edges: Sequence[Edge], raised: Sequence[Edge]) -> frozenset[str]:
        self.life.passes()
        ids = self.webhook.send(edges, raised)
        self.life.passes()
        return ids


def live(world: World, heard: Heard, store: Store, life: Life) -> None:
    """One process: a step, then the delivery of all that is stored."""
    of = follower(world, alert(world, "per_page", "mean > 3"), store)
    opened = open_book(world.tables, "busy")
    mortal = MortalBook(opened.document, opened._handle)
    mortal.life = life
    of.book, of.receivers = mortal, ("webhook",)
    look(of)
    deliver([mortal], MortalWebhook(webhook(world, heard), life))


def play(world: World, heard: Heard, kills: int, seed: int) -> None:
    """A process is killed so often, at points that are drawn; then the next one lives."""
    chance, killed, store = random.Random(seed), 0, Store(world.tables, 1)
    while killed < kills:
        more(world, hit(chance.choice(("/a", "/b", "/c")), chance.choice((0, 9)), minute=5))
        try:
            live(world, heard, store, Life(chance.randint(0, 7)))
        except Killed:
            killed += 1
            store = Store(world.tables, 1)
    live(world, heard, store, Life(10**6))
    document = open_book(world.tables, "busy").document
    edges = [each.edge.id for each in document.edges]
    assert document.unsent("webhook") == ()
    first = list(dict.fromkeys(heard.ids))
    assert first[-len(edges) :] == edges, "all that is stored was sent, in its order, and nothing else"
    repeated = len(heard.ids) - len(first)
    assert repeated <= killed, "only a kill repeats an edge, and each only one"
    kinds = {each["id"]: each for each in heard.documents}
    open_now = set[str]()
    for each in (kinds[number] for number in first):
        open_now = open_now | {each["id"]} if each["kind"] == "raised" else open_now - {each["of"]}
    assert open_now == set(fold_recent(document)), "what the receiver folds is what is raised"


def fold_recent(document: AlertDocument) -> list[str]:
    return [each.edge.id for each in document.episodes if each.edge is not None]


@pytest.mark.slow
def test_a_process_that_is_killed_anywhere_loses_and_doubles_nothing(world: World, heard: Heard) -> None:
    play(world, heard, 12, 1)


@pytest.mark.slow  # two hundred processes take a minute
@pytest.mark.parametrize("seed", [2, 3])
def test_two_hundred_kills(world: World, heard: Heard, seed: int) -> None:
    play(world, heard, 100, seed)


def test_of_two_servers_side_by_side_each_edge_is_sent_once(world: World, heard: Heard) -> None:
    one, other = (follower(world, alert(world, "per_page", "n > 0"), Store(world.tables, 1)) for _ in range(2))
    for each in (one, other):
        each.receivers = ("webhook",)
    look(one)
    with pytest.raises(TandemError, match="has a newer version"):
        look(other)
    deliver([one.book], webhook(world, heard))
    look(follower(world, one.alert))
    assert deliver([open_book(world.tables, "busy")], webhook(world, heard)) == 0
    assert len(heard.ids) == len(set(heard.ids)) == 2
    assert len(fold(one.book.document)) == 2
