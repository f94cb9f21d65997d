"""A client of changes that drops at any event has the rows of the answer once it resumes, or has to read all rows again."""

import random
import time
from dataclasses import dataclass, field

import pytest

from tandem.serving.changes import watch
from tandem.serving.connection import Connection
from tandem.serving.memory.cached_view import SECONDS
from tandem.serving.memory.changes_token import ChangesToken, TokenGone
from tandem.serving.memory.store import Store
from tandem.speed.hot.follow import HotTailEnded
from tests.serving.test_changes_are_neither_lost_nor_repeated import Known, known, taken_in
from tests.speed.hot.beside import Beside, beside, layer
from tests.speed.sales import sale

__all__ = ["beside", "layer"]


@dataclass
class Client:
    """It knows the rows of a view and the token of its last event; `resumed` counts tokens with hot commits, and without."""

    name: str
    connection: Connection
    rows: Known = field(default_factory=dict)
    resumed: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    over: int = 0

    def begin(self) -> None:
        view = self.connection.view(self.name).now()
        self.rows, self.token = self._answer(), view.token
        self.watching = watch(self.connection.store, self.connection.store.pinned(), self.name, None)

    def resume(self, connection: Connection, *, late: bool = False) -> None:
        """Go on from the token at a server, after the stream has ended; `late`, after the server's time for it."""
        self.watching.keep()
        if late:
            connection.store.recent.clock = lambda: time.monotonic() + 2 * SECONDS
        self.connection = connection
        store, token = connection.store, ChangesToken.parse(self.token)
        try:
            self.watching = watch(store, store.pinned(), self.name, token)
        except TokenGone:
            self.over += 1
            self.begin()
        else:
            self.resumed[token.hot is not None] += 1

    def look(self) -> None:
        if (found := self.watching.look(self.connection.store.pinned())) is not None:
            self.watching.sent(found)
            self.rows, self.token = taken_in(self.connection.view(self.name).now().view, self.rows, found), found.token
        assert self.rows == self._answer()

    def _answer(self) -> Known:
        view = self.connection.view(self.name).now()
        return known(view.view, view.scan().to_arrow().to_pylist())


@pytest.mark.each_run("0")
@pytest.mark.parametrize("seed", range(3))
def test_a_client_that_drops_at_any_event_ends_with_the_rows_of_the_answer(beside: Beside, seed: int) -> None:
    """Duplicates with other contents in other partitions: hot commits may count another one than the commits do."""
    dice, layer = random.Random(seed), beside.layer
    beside.start()
    servers = [beside.connection, Connection(Store(layer.tables, 2))]
    clients = [Client(name, servers[0]) for name in ("per_minute", "per_shop") for _ in range(2)]
    for client in clients:
        client.begin()
    for _ in range(60):
        number = dice.randrange(40)
        copy = sale(number, seconds=number % 3 * 60, shop=dice.choice("abcd"), amount=dice.choice((-1, 0, 1)))
        layer.topic.append([copy], partition=dice.randrange(3))
        match dice.choice(("read", "read", "read", "commit", "restart", "nothing")):
            case "commit":
                layer.streaming.trigger(dice.random)
            case "restart":
                beside.start()
            case "nothing":
                continue
        try:
            beside.step(later=0.3)
        except HotTailEnded:  # commits passed it
            beside.start()
        for server in servers:
            server.refresh()
        for client in clients:
            if dice.random() < 0.4:
                client.resume(dice.choice([client.connection, *servers]))
            client.look()
    layer.drain()
    beside.step()
    for server in servers:
        server.refresh()
    for client in clients:
        client.look()
    assert all(sum(client.resumed[hot] for client in clients) for hot in (True, False))
    assert sum(client.over for client in clients)


@pytest.mark.parametrize("back", ["soon", "late"])
def test_rows_that_only_hot_commits_counted_end_with_their_token(beside: Beside, back: str) -> None:
    """Hot commits count one of two duplicates, the commit the other: no table names the row that a client has of the first.

    The server that sent it to the client has it for a while.
    """
    layer = beside.layer
    beside.start()
    beside.connection.refresh()
    client = Client("per_minute", beside.connection)
    client.begin()
    for partition, shop in ((2, "a"), (0, "b")):
        layer.topic.append([sale(1, shop=shop)], partition=partition)
        beside.step(later=0)
    beside.connection.refresh()
    client.look()
    client.resume(beside.connection)
    client.look()
    assert (client.resumed[True], [row["shop"] for row in client.rows.values()]) == (1, ["a"])
    layer.drain()
    beside.step()
    beside.connection.refresh()
    client.resume(beside.connection, late=back == "late")
    client.look()
    assert (client.over, [row["shop"] for row in client.rows.values()]) == (int(back == "late"), ["b"])


@pytest.mark.parametrize("again", [False, True])
def test_a_token_ends_once_hot_commits_are_merged_across_its_end_or_folded_by_another_process(
    beside: Beside, *, again: bool
) -> None:
    """Long before a commit: then no hot commit ends where the token does, or they may count other duplicates."""
    beside.start()
    for number in range(8):
        beside.layer.topic.append([sale(number)])
        beside.step(later=0.3)
        beside.connection.refresh()
        if number == 5:
            token = ChangesToken.parse(beside.connection.view("per_minute").now().token)
            watch(beside.connection.store, beside.connection.store.pinned(), "per_minute", token)
            if again:
                beside.start()
    assert token.hot is not None
    with pytest.raises(TokenGone, match="a merge of hot commits, their commit"):
        watch(beside.connection.store, beside.connection.store.pinned(), "per_minute", token)


def test_a_client_that_hears_nothing_for_long_can_still_come_back_soon(beside: Beside) -> None:
    """Its server keeps what the client knows as long as the client follows, not only for a while after the last change."""
    beside.start()
    beside.connection.refresh()
    client, time_passed = Client("per_minute", beside.connection), 0.0
    client.begin()
    beside.connection.store.recent.clock = lambda: time_passed
    beside.layer.topic.append([sale(1)])
    beside.step(later=0)
    beside.connection.refresh()
    client.look()
    token = client.token
    for _ in range(3):
        time_passed += SECONDS - 1
        client.look()
    beside.layer.drain()
    beside.step()
    beside.connection.refresh()
    assert (client.token, client.over) == (token, 0)
    client.resume(beside.connection)
    client.look()
    assert (client.resumed[True], client.over) == (1, 0)
