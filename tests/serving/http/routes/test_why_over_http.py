"""What is behind a row over HTTP is what the command prints, within the rights of the token; receipts are in a header."""

import json
from pathlib import Path

import pytest

from tandem.serving.client.server_client import Client
from tandem.serving.http.routes import why as route
from tandem.serving.why.document import changes_to_json
from tandem.serving.why.part_log import WorkBounds
from tandem.serving.why.receipt import Receipt
from tandem.serving.why.refold import check
from tests.serving.http.served import Served
from tests.serving.why.shop import EIGHT, Shop
from tests.serving.why.test_the_events_behind_a_row import ask as ask_here
from tests.serving.why.test_the_events_behind_a_row import document, eventful
from tests.serving.why.test_why_rows_changed import between
from tests.serving.world import position

ASKED = {"key.city": "OSLO", "window": "2026-11-01T08:00Z"}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """All of its log is archived: no broker runs."""
    shop = eventful(tmp_path)
    shop.file_in_archive(position(8))
    return shop


def test_a_server_explains_rows_within_the_rights_of_the_token(shop: Shop) -> None:
    served = Served(shop)
    bound = served.token("of Oslo", views=("hourly",), rows=("city=OSLO",))
    plain = served.token("reader")
    with served.asker() as asker:
        whole = asker.get("/views/hourly/why", params=ASKED).json()
        here = document(ask_here(shop.why(), "hourly", "2026-11-01T08:00Z", city="OSLO"))
        assert whole["agrees"]
        assert whole["row"] == here["row"]
        assert whole["sources"]["sales"]["listed"] == here["listed"]
        assert whole["sources"]["sales"]["near_misses"] == here["near_misses"]
        assert whole["sources"]["sales"]["read"]["topic_records"] == 0
        one = asker.get("/views/hourly/why", params={**ASKED, "listed": "1", "measures": "revenue"}).json()
        assert [event["reads"] for event in one["sources"]["sales"]["listed"]] == [{"revenue": ["1.00"]}]
        assert asker.get("/views/hourly/why", params={"window": ASKED["window"]}).status_code == 400
        assert asker.get("/views/nothing/why", params=ASKED).status_code == 404
    with Served(shop).asker(plain) as asker:
        seen = asker.get("/views/hourly/why", params=ASKED).json()["sources"]["sales"]["near_misses"]
        assert (seen["number"], seen["first"]) == (2, []), "only an admin sees records in quarantine"
    with Served(shop).asker(bound) as asker:
        told = asker.get("/views/hourly/why", params=ASKED).json()
        assert told["sources"]["sales"]["near_misses"] == {"rejects": None, "number": None, "first": []}
        assert told["provenance"]["cut"] is None
        assert told["final_since"]["positions"] is None
        assert asker.get("/views/hourly/why", params={**ASKED, "key.city": "BERGEN"}).status_code == 403
        assert asker.get("/views/ever/why").status_code == 404


def test_the_work_of_a_request_is_bounded(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route, "BOUNDS", WorkBounds(events=3))
    with Served(shop).asker() as asker:
        refused = asker.get("/views/hourly/why-changed", params={"before": "1"})
        assert (refused.status_code, refused.json()["code"]) == (503, "too-many-events")
        refused = asker.get("/views/hourly/why", params=ASKED)
        assert (refused.status_code, refused.json()["code"]) == (503, "too-many-events")


def test_a_client_asks_why(shop: Shop) -> None:
    with Served(shop).asker() as asker:
        found = Client(asker).why("hourly", {"city": "OSLO"}, window=EIGHT, listed=2)  # type: ignore[arg-type]
        assert len(found["sources"]["sales"]["listed"]) == 2
        assert found["row"]["revenue"] == "9.00"
        past = Client(asker).why("hourly", {"city": "OSLO"}, window=EIGHT, publication=2)  # type: ignore[arg-type]
        assert past["row"]["revenue"] == "4.00"


def test_a_server_splits_differences_within_the_rights_of_the_token(shop: Shop, tmp_path: Path) -> None:
    served = Served(shop)
    bound = served.token("of Oslo", views=("hourly",), rows=("city=OSLO",))
    path = "/views/hourly/why-changed"
    with served.asker() as asker:
        here = changes_to_json(between(shop, "hourly", "2", "now"))
        assert {row["row"]["city"] for row in here["rows"]} > {"OSLO"}
        assert asker.get(path, params={"before": "2"}).json() == here
        of_oslo = asker.get(path, params={"before": "2", **ASKED}).json()
        assert of_oslo["rows"] == changes_to_json(between(shop, "hourly", "2", "now", "city=OSLO"))["rows"]
        found = Client(asker).why_changed("hourly", {"city": "OSLO"}, before=2, window=EIGHT)  # type: ignore[arg-type]
        assert found == of_oslo
        text = asker.get("/views/hourly/rows", headers={"Tandem-Receipt": "1"}).headers["tandem-receipt"]
        assert asker.get(path, params={"before": text}).json()["rows"] == []
        (tmp_path / "receipt.json").write_text(text)
        for before, words in (
            (str(tmp_path / "receipt.json"), "is not a moment: "),  # no file of the server is read
            ("9", "publication 9 does not exist"),
            ('{"receipt": 7}', "the receipt is not a receipt"),
        ):
            refused = asker.get(path, params={"before": before})
            assert refused.status_code == 400
            assert words in refused.json()["detail"]
        assert asker.get("/views/nothing/why-changed", params={"before": "1"}).status_code == 404
        assert asker.get(path).status_code == 400
        within = asker.get(path, params={"before": "2", "window": "2026-11-01T08:30Z"})
        assert within.status_code == 400
        assert "the nearest start at 2026-11-01T08:00:00Z and 2026-11-01T09:00:00Z" in within.json()["detail"]
    with Served(shop).asker(bound) as asker:
        assert asker.get(path, params={"before": "2"}).json()["rows"] == [
            row for row in here["rows"] if row["row"]["city"] == "OSLO"
        ]
        assert asker.get(path, params={"before": "2"}).json()["erased"] is None
        for asked in ({"before": "2", "key.city": "BERGEN"}, {"before": '{"T": {"0": 2}}'}, {"before": "2", "after": text}):
            assert asker.get(path, params=asked).status_code == 403
        assert asker.get("/views/ever/why-changed", params={"before": "2"}).status_code == 404


def test_a_receipt_is_in_a_header_if_asked_for(shop: Shop) -> None:
    with Served(shop).asker() as asker:
        assert "tandem-receipt" not in asker.get("/views/hourly/rows").headers
        for path, asked in (("rows", {}), ("rows", {"key.city": "OSLO"}), ("row", ASKED), ("rows", {"publication": "2"})):
            answer = asker.get(f"/views/hourly/{path}", params=asked, headers={"Tandem-Receipt": "1"})
            receipt = Receipt.parse(answer.headers["tandem-receipt"].encode(), "the header")
            assert check(shop.tables, shop.tail, receipt).problems == ()
            assert json.loads(answer.headers["tandem-receipt"])["rows"] == len(answer.json().get("rows", [1]))
        some = asker.get("/views/hourly/rows", params={"limit": "1"}, headers={"Tandem-Receipt": "1"})
        assert (some.status_code, "a receipt is of all rows" in some.json()["detail"]) == (400, True)
        assert asker.get("/views/hourly/rows", headers={"Tandem-Receipt": "yes"}).status_code == 400
        speed = asker.get("/views/hourly/rows", params={"layer": "speed"}, headers={"Tandem-Receipt": "1"})
        assert (speed.status_code, speed.json()["code"]) == (400, "receipt-invalid")
