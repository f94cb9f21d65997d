"""Workers have equal parts of what holds for a whole server, so together they have at most that, and each has something."""

import msgspec

from infra.settings import Serving
from ledger.realtime.hot_messages import HotStatus
from serving.http.metrics import Metrics
from serving.http.workers import shares
from serving.http.workers.joined_metrics import joined
from serving.http.workers.peers import Peers
from serving.http.workers.shares import share_of

OF_ONE = {
    "port",
    "workers",
    "poll_ms",
    "head_s",
    "keep_alive_s",
    "least_bytes_s",
    "grace_s",
    "max_rows",
    "body_kb",
    "response_mb",
    "wait_s",
    "timeout_s",
    "stale_s",
    "hot",
    "hot_mb",
    "oidc",
}
"""Settings of one request, one response, one connection, or the process of hot tails, which has no share."""


def test_every_setting_is_of_the_server_or_of_one_thing() -> None:
    assert {*shares._SHARED, *OF_ONE} == set(Serving.__struct_fields__)
    assert not OF_ONE & {*shares._SHARED}


def test_parts_add_up_to_at_most_the_whole() -> None:
    whole = Serving(rate=9, statements=2)
    for workers in (1, 2, 3, 5):
        part = msgspec.structs.asdict(share_of(whole, workers))
        for name in shares._SHARED:
            assert 1 <= part[name] <= max(1, getattr(whole, name) / workers)
    assert share_of(whole, 1) == whole


def test_a_request_goes_to_the_worker_that_has_what_it_is_about() -> None:
    peers = Peers(1, [], 1.0, 1)
    peers.sockets = [*map(str, range(3))]  # type: ignore[list-item]  # nobody connects

    def owner(path: str, query: str = "", **headers: str) -> int:
        sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        return peers.owner({"path": path, "query_string": query.encode(), "headers": sent})

    assert [owner(path) for path in ("/runs", "/runs/plan", "/quarantine/hits/retry")] == [0, 0, 0]
    assert [owner(path) for path in ("/runsaway", "/quarantine/hits", "/views", "/metrics")] == [1, 1, 1, 1]
    assert owner("/views/v/rows", "limit=1&cursor=2~abc") == 2
    assert owner("/views/v/rows", "cursor=abc") == owner("/views/v/rows", "cursor=7~abc") == 1
    assert owner("/views/v/changes", "since=0%7Eabc") == 0
    assert owner("/views/v/changes", last_event_id="2~sealed.abc") == 2
    assert owner("/views/v/rows", last_event_id="2~sealed.abc") == 1


def test_the_metrics_of_workers_stand_by_family() -> None:
    def text(number: int) -> bytes:
        return f'# HELP a A.\n# TYPE a counter\na_total{{of="x"}} {number}\n# HELP b B.\n# TYPE b gauge\nb {number}\n'.encode()

    found = joined(text(1), 1, {0: text(0)}, workers=3).decode().splitlines()
    assert found[:8] == [
        "# HELP a A.",
        "# TYPE a counter",
        'a_total{worker="0",of="x"} 0',
        'a_total{worker="1",of="x"} 1',
        "# HELP b B.",
        "# TYPE b gauge",
        'b{worker="0"} 0',
        'b{worker="1"} 1',
    ]
    assert found[-3:] == [
        'tandem_worker_up{worker="0"} 1.0',
        'tandem_worker_up{worker="1"} 1.0',
        'tandem_worker_up{worker="2"} 0.0',
    ]


def test_what_is_the_same_for_all_workers_stands_once_whichever_is_asked() -> None:
    def text(number: int) -> bytes:
        metrics = Metrics()
        metrics.hot([HotStatus(nbytes=7)], ahead=3, compared=9 - number, mismatched=0)
        return metrics.text()

    found = [joined(text(own), own, {other: text(other)}, workers=2).decode() for own, other in ((0, 1), (1, 0))]
    for one in found:
        assert "\ntandem_hot_bytes 7.0\n" in one
        assert one.count("\ntandem_hot_bytes") == one.count("\ntandem_hot_ahead_offsets") == 1
        assert "\ntandem_hot_compared_views_total 9.0\n" in one
        assert 'tandem_http_connections{worker="1"}' in one
