"""The shop's definitions on requests few enough to count by hand; runs without Java or Kafka."""

from datetime import UTC, datetime

from definitions import Request, page_traffic, route_latency, section_visitors, totals, user_bytes

from tandem.testing import answer


def request(
    number: int, *, minute: int = 0, user: str = "ann", path: str = "/shop/item/7", status: int = 200, size: int = 100
) -> Request:
    return Request(
        request_id=f"r{number}",
        at=datetime(2026, 11, 1, 8, minute, 30, tzinfo=UTC),
        user=user,
        path=path,
        status=status,
        bytes=size,
        ms=float(number),
    )


def test_page_traffic_counts_by_page_and_minute() -> None:
    rows = answer(page_traffic, [request(1), request(2, user="bob"), request(3, minute=1)])
    assert [(row["page"], row["window_start"], row["hits"], row["bytes"], row["visitors"]) for row in rows] == [
        ("/shop/item/7", "2026-11-01T08:00:00Z", 2, 200, 2),
        ("/shop/item/7", "2026-11-01T08:01:00Z", 1, 100, 1),
    ]


def test_failed_requests_are_no_traffic() -> None:
    assert answer(page_traffic, [request(1, status=500)]) == []


def test_a_request_told_twice_counts_once() -> None:
    (row,) = answer(page_traffic, [request(1), request(1)])
    assert row["hits"] == 1


def test_sections_count_each_visitor_once_an_hour() -> None:
    rows = answer(section_visitors, [request(1), request(2, minute=59), request(3, path="/blog/new"), request(4, path="/")])
    assert {row["section"]: (row["visitors"], row["requests"]) for row in rows} == {
        "": (1, 1),
        "blog": (1, 1),
        "shop": (1, 2),
    }


def test_routes_put_all_items_together() -> None:
    (row,) = answer(route_latency, [request(n, path=f"/shop/item/{n}") for n in range(1, 10)])
    assert (row["route"], row["requests"], row["slowest"], row["latency"]["0.5"]) == ("/shop/item/:id", 9, 9.0, 5.0)


def test_users_have_a_day_of_bytes() -> None:
    (row,) = answer(user_bytes, [request(1, size=5), request(2, minute=40, size=8)])
    assert (row["user"], row["bytes"], row["largest"]) == ("ann", 13, 8)


def test_totals_know_the_first_and_the_last() -> None:
    (row,) = answer(totals, [request(1, size=1), request(2, minute=9, size=2, status=503)])
    assert (row["requests"], row["mean_bytes"], row["users"]) == (2, 1.5, 1)
    assert (row["first"], row["last"]) == ("2026-11-01T08:00:30Z", "2026-11-01T08:09:30Z")
