"""The access log's definitions on lines few enough to count by hand; runs without Java or Kafka."""

from datetime import UTC, datetime

from definitions import Access, broken_links, clients, path_traffic, status_counts, totals

from tandem.testing import answer


def line(
    minute: int = 0,
    *,
    host: str = "192.0.2.1",
    path: str | None = "/a",
    status: int = 200,
    size: int = 100,
    referer: str | None = None,
) -> Access:
    return Access(
        host=host,
        time=datetime(2026, 11, 1, 8, minute, 30, tzinfo=UTC),
        method=None if path is None else "GET",
        path=path,
        status=status,
        bytes=size,
        referer=referer,
        agent="curl",
    )


def test_equal_lines_are_two_requests() -> None:
    (row,) = answer(path_traffic, [line(), line(), line(59, size=0)])
    assert (row["path"], row["window_start"], row["hits"], row["bytes"]) == ("/a", "2026-11-01T08:00:00Z", 3, 200)


def test_what_is_no_request_has_a_key_of_its_own() -> None:
    rows = answer(status_counts, [line(), line(path=None, status=400)])
    assert {(row["method"], row["status"]): row["hits"] for row in rows} == {("GET", 200): 1, (None, 400): 1}


def test_a_link_is_broken_where_it_was_followed_from() -> None:
    rows = answer(broken_links, [line(path="/x?a=1", status=404, referer="/b"), line(path="/x?a=2", status=404, referer="/b")])
    assert [(row["path"], row["referer"], row["hits"], row["clients"]) for row in rows] == [("/x", "/b", 2, 1)]
    assert answer(broken_links, [line(status=404), line(referer="/b")]) == []


def test_a_client_has_a_first_and_a_last_line_each_day() -> None:
    (row,) = answer(clients, [line(7, size=3), line(1, size=9)])
    assert (row["host"], row["bytes"], row["largest"]) == ("192.0.2.1", 12, 9)
    assert (row["first"], row["last"]) == ("2026-11-01T08:01:30Z", "2026-11-01T08:07:30Z")


def test_totals_have_no_window() -> None:
    (row,) = answer(totals, [line(), line(host="192.0.2.2", size=1)])
    assert (row["window_start"], row["hits"], row["bytes"], row["clients"], row["agents"]) == (None, 2, 101, 2, 1)
