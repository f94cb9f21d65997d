"""After an erasure neither an alert nor a sink has stored anything of the records, and both go on with what is left."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.erase import erase
from tandem.batch.erase.prove import prove
from tandem.batch.recompute import recompute
from tandem.ledger.delta.errors import Conflict
from tandem.ledger.log.erasures import Erasures
from tandem.serving.memory.store import Store
from tandem.serving.sinks.alerts.book import AlertDocument, load_document, open_book
from tandem.serving.sinks.alerts.episodes import Edge
from tandem.serving.sinks.alerts.follow import AlertFollower
from tandem.serving.sinks.erasure import erase_stored_rows
from tandem.serving.sinks.outbox import Outbox, OutboxDocument, OutboxMessage
from tests.batch.erase.test_erased_records_are_gone import filled, selecting
from tests.batch.shop import DEFINITIONS, Shop, answers, records
from tests.killed import Killed

WITH_ALERT = DEFINITIONS.replace("from tandem import", "from tandem import Alert,").replace(
    "SOURCES =", 'busy = Alert(per_hour, when="n >= 20", text="{shop} sold {n} for {cents}")\nSOURCES ='
)
SECRET = 918_273_645
TEXTS = ("hidden corner", "secret-visitor")


def follower(shop: Shop) -> AlertFollower:
    """The alert as a process follows it, from what is stored."""
    alert = shop.project().alerts["busy"]
    return AlertFollower(Store(shop.tables, 1), alert, open_book(shop.tables, "busy"), ("r",), lambda: datetime.now(UTC))


def look(of: AlertFollower) -> tuple[Edge, ...]:
    of.store.refresh()
    return of.look(of.store.pinned())


def stored(shop: Shop) -> AlertDocument:
    found = load_document(shop.tables, "busy")
    assert found is not None
    return found


def sell_secretly(shop: Shop) -> None:
    """Thirty sales of another shop in one hour, and a sale that changes a row of shop 1."""
    at = datetime(2026, 3, 1, 0, 30, tzinfo=UTC)
    hidden = [{"id": f"secret-visitor-{n}", "at": at.isoformat(), "shop": TEXTS[0], "cents": n} for n in range(30)]
    known = {"id": "secret-visitor", "at": at.isoformat(), "shop": "shop 1", "cents": SECRET}
    shop.sell({0: [json.dumps(sale).encode() for sale in hidden], 1: [json.dumps(known).encode()]})
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)


def outbox_of(shop: Shop) -> Outbox:
    """A sink that waits for its receiver with a message about the hidden row."""
    box = Outbox.of(shop.tables, "rows")
    message = OutboxMessage("1", json.dumps({"view": "per_hour", "key": {"shop": TEXTS[0]}, "value": {"n": 30}}))
    box.change(lambda document: document.with_step("token rows", [message]))
    return box


def raised_edges(shop: Shop) -> tuple[Edge, ...]:
    """The edges of an alert that no receiver has acknowledged, with the hidden shop and shop 1 among them."""
    shop.define(WITH_ALERT)
    filled(shop, 900, 6)
    of = follower(shop)
    assert look(of) == (), "rows of the first step would be raised quietly"
    shop.sell(records(905, 400))
    sell_secretly(shop)
    edges = look(of)
    assert {TEXTS[0], "shop 1", "shop 2"} <= {edge.place["shop"] for edge in edges}
    return edges


def test_neither_edges_nor_messages_have_them(shop: Shop) -> None:
    """An edge that was sent goes; of rows that are left edges have the values of now, and nothing is raised twice."""
    edges = raised_edges(shop)
    (gone, *_) = (edge for edge in edges if edge.place["shop"] == "shop 2")
    of = follower(shop)
    of.book.change(lambda document: document.acknowledge("r", frozenset({gone.id})))
    box = outbox_of(shop)
    before = stored(shop), box.document
    erase_stored_rows(shop.tables, "another source", shop.project().alerts)
    assert (stored(shop), Outbox.of(shop.tables, "rows").document) == before

    (done,) = shop.forget(selecting(f"shop = '{TEXTS[0]}' OR id = 'secret-visitor'"))
    assert prove(shop.tables, done.erasure, TEXTS).whole
    assert prove(shop.tables, done.erasure, ("shop 2",)).hits
    (was,) = (edge.text for edge in edges if edge.place["shop"] == "shop 1" and int(edge.text.split()[-1]) > SECRET)
    assert prove(shop.tables, done.erasure, (was, str(SECRET))).whole
    now = {(row["shop"], row["window_start"]): row for row in answers(shop, done.publication, "per_hour")}
    document = stored(shop)
    assert {each.edge.id for each in document.edges} == {
        edge.id for edge in edges if edge is not gone and edge.place["shop"] != TEXTS[0]
    }
    assert len(document.episodes) == len(document.edges) + 1
    for each in document.edges:
        row = now[each.edge.place["shop"], each.edge.place["window_start"]]
        assert each.edge.text == f"{row['shop']} sold {row['n']} for {row['cents']}"
        for said in (each.edge.raised.row, each.edge.now.row):
            assert said is not None
            assert (said["n"], said["cents"]) == (row["n"], row["cents"])
    assert Outbox.of(shop.tables, "rows").document == replace(box.document, stamp="", left=())
    # Each process still has the records in memory.
    with pytest.raises(Conflict):
        of.book.change(lambda _: AlertDocument())
    with pytest.raises(Conflict):
        box.change(lambda document: replace(document, left=()))
    later = look(follower(shop))
    assert not [edge for edge in later if edge.kind == "raised" or edge.place["shop"] == TEXTS[0]]
    assert prove(shop.tables, done.erasure, TEXTS).whole


def test_a_killed_erasure_of_outputs_is_finished(shop: Shop) -> None:
    """Killed before it, or between alert and sink: the next run erases both, and what a removed alert has stored."""
    raised_edges(shop)
    outbox_of(shop)
    shop.define(DEFINITIONS)

    def killed(source: str) -> None:
        if Outbox.of(shop.tables, "rows").document.left and stored(shop).edges:
            Outbox.of(shop.tables, "rows").rewrite(lambda _: OutboxDocument())
        raise Killed

    chosen = selecting(f"shop = '{TEXTS[0]}' OR id = 'secret-visitor'")
    for _ in range(2):
        with pytest.raises(Killed):
            erase.run(shop.run("forget"), "sales", chosen, stored=killed)
        (left,) = Erasures(shop.tables).to_finish("sales")
        assert left.stage == "refolded"
    (done,) = shop.forget(None)
    assert stored(shop) == AlertDocument()
    assert prove(shop.tables, done.erasure, TEXTS).whole
