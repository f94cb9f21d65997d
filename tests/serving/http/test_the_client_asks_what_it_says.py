"""The Python client gives the answers of a reader in process, on a real connection, and raises the server's sentence."""

import json
from collections.abc import Iterator
from datetime import timedelta, timezone

import httpx
import pytest

from tandem.serving.client import server_client as clients
from tandem.serving.client.event_stream import lines_of, parse_events
from tandem.serving.client.server_client import Client, Refused
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Value
from tests.serving.http.served import Served, serving
from tests.serving.world import NOON, World, forty_hits, hit


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = forty_hits(tmp_path_factory.mktemp("world"))
    made.append(0, hit(None, 7, minute=90), hit("", 8))
    made.trigger()
    return made


@pytest.fixture(scope="module")
def client(world: World) -> Iterator[Client]:
    served = Served(world, {"wait_s": 4})
    with serving(served) as address, clients.client(address, served.token("client", may=("read", "sql"))) as found:
        yield found


def test_rows_equal_the_readers_by_every_call(world: World, client: Client) -> None:
    reader = Reader(world.tables)
    whole = reader.answer("per_page")
    assert isinstance(whole, Value)
    for page in (1000, 7):
        found = client.rows("per_page", page=page)
        assert (found.rows, found.total) == (whole.rows(), whole.total)
        assert client.arrow("per_page", page=page).equals(whole.table)
    for key in ("/03", "", None):
        one = reader.answer("per_page", keys={"page": key})
        assert isinstance(one, Value)
        assert client.rows("per_page", {"page": key}).rows == one.rows()
    later = client.rows("per_page", start=NOON + timedelta(hours=1), end=NOON + timedelta(hours=2))
    assert [row["page"] for row in later.rows] == [None]
    assert [row["odd"] for row in client.rows("inverse", {"odd": True}).rows] == [True]
    most = client.rows("per_page", measures=["bytes"], order=["-bytes"], page=5, layer="batch")
    assert [row["bytes"] for row in most.rows] == list(reversed(range(30)))
    assert "n" not in most.rows[0]
    assert client.rows("ever", publication=2).provenance["layer"] == "batch"


def test_one_row_and_many_keys_work(client: Client) -> None:
    zone = timezone(timedelta(hours=5))
    row = client.row("per_page", {"page": "/03"}, window=NOON.astimezone(zone))
    assert row is not None
    assert row["bytes"] == 3
    assert client.row("per_page", {"page": "/nowhere"}, window=NOON) is None
    found = client.lookup("per_page", [{"page": None}, {"page": "/no"}, {"page": "/later"}], measures=["n"])
    assert ([row["n"] for row in found.rows], found.absent) == ([1, 10], (1,))


def test_an_answer_becomes_tables_and_shows_itself(world: World, client: Client) -> None:
    whole = Reader(world.tables).answer("per_page")
    assert isinstance(whole, Value)
    found = client.answer("per_page", page=7)
    assert found.to_arrow().equals(whole.table)
    assert found.to_pandas().equals(whole.to_pandas())
    assert found.provenance["publication"] == whole.provenance.publication
    assert repr(found) == f"<ServerAnswer per_page: {len(whole.rows())} rows; {whole.provenance.exactness.says}>"
    by_sql = client.sql_answer("SELECT sum(bytes) AS bytes FROM per_page")
    assert by_sql.to_polars()["bytes"].to_list() == [sum(row["bytes"] for row in whole.rows())]
    assert "<td>/03</td>" in client.rows("per_page", {"page": "/03"})._repr_html_()
    assert repr(client.rows("per_page", {"page": "/03"})) == "<RowsPage 1 row>"
    assert client.rows("per_page", {"page": "/none"})._repr_html_().endswith("<p>0 rows</p>")


def test_views_are_described(client: Client) -> None:
    assert [view["name"] for view in client.views()] == ["per_page", "ever", "inverse"]
    assert client.view("ever")["where"] == "bytes > 0"


def test_you_read_what_you_wrote(world: World, client: Client) -> None:
    world.append(1, hit("/mine", 1))
    world.trigger()
    written = json.dumps(world.end.to_json())
    assert client.rows("per_page", {"page": "/mine"}, min_position=written).total == 1
    row = client.row("per_page", {"page": "/mine"}, window=NOON, min_position=written)
    assert row is not None
    assert client.lookup("per_page", [{"page": "/mine"}], min_position=written).rows == [row]
    found = client.sql("SELECT n FROM per_page WHERE page = '/mine'", min_position=written)
    assert (found.rows, found.total) == ([{"n": row["n"]}], 1)


@pytest.mark.parametrize("page", ["a\u2028b\u2029", "\x85", "\x0b\x0c\x1c\x1d\x1e", "\r\n", "é☃: \n\n"])
def test_changes_may_have_any_text(world: World, client: Client, page: str) -> None:
    token = client.http.get("/views/per_page/changes", headers={"Accept": "application/json"}).json()["token"]
    world.append(0, hit(page, 1))
    world.trigger()
    assert [row["page"] for row in next(client.changes("per_page", since=token)).rows] == [page]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_stream_may_arrive_in_any_pieces(size: int) -> None:
    sent = 'id: 1\nevent: rows\ndata: {"rows":[{"page":"\u2028é\x85"}]}\n\n: still here\n\nid: 2\n\nid: 3\ndata: {"rows"'.encode()
    found = [*parse_events(lines_of(sent[start : start + size] for start in range(0, len(sent), size)))]
    assert [(update.token, [*update.rows]) for update in found] == [("1", [{"page": "\u2028é\x85"}]), ("2", [])]


def test_a_refusal_is_raised_with_its_sentence(client: Client) -> None:
    with pytest.raises(Refused, match="no view 'evr'; views: ever") as refused:
        client.rows("evr")
    assert (refused.value.status, refused.value.retry_after) == (404, None)
    with pytest.raises(Refused, match=r"no route /views/\.\./status"):
        client.view("../status")
    with pytest.raises(Refused, match="not as fresh as requested") as stale:
        client.rows("ever", min_position='{"T": {"0": 999}}')
    assert (stale.value.status, stale.value.retry_after) == (504, 1.0)
    for ask in (
        lambda ahead: client.row("ever", {}, min_position=ahead),
        lambda ahead: client.lookup("per_page", [{"page": "/"}], min_position=ahead),
        lambda ahead: client.sql("SELECT 1", min_position=ahead),
    ):
        with pytest.raises(Refused, match="not as fresh as requested") as stale:
            ask('{"T": {"0": 999}}')
        assert (stale.value.status, stale.value.retry_after) == (504, 1.0)


def test_an_answer_of_another_server_is_reported_as_such() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(429, headers={"Retry-After": "3"}, text="<html>")

    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://proxy") as http:
        with pytest.raises(Refused, match="/views answered 429") as refused:
            Client(http).views()
        assert refused.value.retry_after == 3.0
