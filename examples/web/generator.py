"""A shop's sample requests, and the expected answers of every view of this example.

`generate` yields samples (key, value, facts): a record's key and value, and the facts of a well-formed record, None for a
malformed one. `Truth` sums up facts in plain Python, in one dictionary for each view. The platform's answers are compared with
it, so it imports nothing of the platform and has exact measures only.
"""

import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from examples.traffic import DAY, HOUR, MINUTE, broken, event_times, response_bytes, zipf
from examples.truth import EPOCH, window, written_time

SOURCE = "requests"

SECTIONS = ("shop", "search", "cart", "blog", "account", "help")
PAGES = (
    "/",
    *(f"/{section}/{word}" for word in ("new", "sale", "café", 'the-"best"') for section in SECTIONS),
    *(f"/{section}/item/{number}" for number in range(60) for section in SECTIONS),
)
USERS = tuple(f"u{number}" for number in range(5_000))
STATUSES = (200, 304, 404, 301, 500, 201, 403, 503)

QUARTER = 15 * MINUTE
RECENT = 500

CONDITIONS: dict[str, Callable[[Mapping[str, Any]], bool]] = {"slow_route": lambda row: row["slowest"] > 1000}
"""Which expected rows the alert of this name is raised for."""


class Request(NamedTuple):
    """The facts of one well-formed record. A copy repeats an identity that was sent before, and does not count."""

    at: int
    user: str
    path: str
    status: int
    bytes: int
    ms: float
    copy: bool = False


Sample = tuple[bytes | None, bytes, Request | None]

# Each takes a good value and breaks it in its own way. An unknown field breaks nothing: every hundredth value has one.
BREAKS = (
    lambda _: b"",
    lambda _: b"GET / HTTP/1.1",
    lambda good: good[:-1],
    lambda good: good + good,
    lambda good: b"[" + good + b"]",
    lambda good: good.replace(b'"user":"', b'"user":"\xff'),
    lambda good: good.replace(b'"user"', b'"usr"'),
    lambda good: re.sub(rb'"status":\d+', b'"status":"ok"', good),
    lambda good: re.sub(rb'"status":\d+', b'"status":null', good),
    lambda good: re.sub(rb'"bytes":\d+', b'"bytes":1180591620717411303424', good),
    lambda good: re.sub(rb'"bytes":\d+', b'"bytes":1.5', good),
    lambda good: re.sub(rb'"ms":[0-9.]+', b'"ms":1e400', good),
    lambda good: re.sub(rb'"ms":[0-9.]+', b'"ms":NaN', good),
    lambda good: re.sub(rb'Z","user"', b'","user"', good),
    lambda good: re.sub(rb'"at":"[0-9]{4}', b'"at":"1969', good),
    lambda good: re.sub(rb'"at":"[^"]+"', b'"at":"yesterday"', good),
)


def generate(seed: int, n: int, *, base: datetime, per_second: float = 20.0, duplicates: float = 0.0) -> Iterator[Sample]:
    """The first `n` samples of `seed`: the same ones for the same seed, base and shares, whatever `n` is.

    `base` is the first event time and `per_second` the mean number of events in a second of event time; neither affects when a
    record is sent. `duplicates` is the share of records that repeat one of the 500 before them, with the same identity and event
    time; every tenth of those differs in content.
    """
    if base.tzinfo is None:
        raise ValueError(f"base {base} has no time zone")
    times = event_times(Random(f"{seed} times"), (base - EPOCH) // timedelta(microseconds=1), per_second)
    pages = zipf(Random(f"{seed} pages"), [(path, json.dumps(path, ensure_ascii=False)) for path in PAGES])
    users = zipf(Random(f"{seed} users"), USERS, 0.8)
    statuses = zipf(Random(f"{seed} statuses"), STATUSES, 2.5)
    sizes = response_bytes(Random(f"{seed} sizes"))
    breaks = broken(Random(f"{seed} breaks"), len(BREAKS))
    latency = Random(f"{seed} latency").random
    repeat = Random(f"{seed} repeats")
    recent: deque[tuple[bytes, Request]] = deque(maxlen=RECENT)
    minutes: dict[int, str] = {}
    for i in range(n):
        if duplicates and recent and repeat.random() < duplicates:
            value, facts = repeat.choice(recent)
            if repeat.random() < 0.1:
                value = value.replace(b'"bytes":', b'"bytes":1')
            yield facts.user.encode(), value, facts._replace(copy=True)
            continue
        at, user, status, size = next(times), next(users), next(statuses), next(sizes)
        path, path_json = next(pages)
        ms = round(2 + 40 * latency() ** -0.4, 3)
        minute, within = divmod(at, MINUTE)
        prefix = minutes.get(minute)
        if prefix is None:
            prefix = minutes[minute] = f"{EPOCH + timedelta(minutes=minute):%Y-%m-%dT%H:%M:}"
        second, micros = divmod(within, 1_000_000)
        extra = ',"agent":"curl"' if i % 100 == 0 else ""
        value = (
            f'{{"request_id":"{seed:x}-{i}","at":"{prefix}{second:02d}.{micros:06d}Z","user":"{user}",'
            f'"path":{path_json},"status":{status},"bytes":{size},"ms":{ms}{extra}}}'
        ).encode()
        key = user.encode()
        kind = next(breaks)
        if kind is not None:
            yield key, BREAKS[kind](value), None
            continue
        facts = Request(at, user, path, status, size, ms)
        if duplicates:
            recent.append((value, facts))
        yield key, value, facts


class Truth:
    """The expected answers of every view of this example for the facts added so far."""

    def __init__(self) -> None:
        self._pages: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
        self._sections: defaultdict[tuple[int, str], int] = defaultdict(int)
        self._routes: defaultdict[tuple[int, str], list[float]] = defaultdict(lambda: [0, 0.0])
        self._statuses: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._users: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        self._requests = 0
        self._bytes = 0
        self._first: int | None = None
        self._last: int | None = None
        self._names: dict[str, tuple[str, str]] = {}

    def add(self, facts: Request) -> None:
        """Count one well-formed record, unless it is a copy."""
        at, user, path, status, size, ms, copy = facts
        if copy:
            return
        names = self._names.get(path)
        if names is None:
            names = self._names[path] = (path.split("/")[1], re.sub("[0-9]+", ":id", path))
        minute = at // MINUTE
        if status < 500:
            page = self._pages[minute, path]
            page[0] += 1
            page[1] += size
        self._sections[at // HOUR, names[0]] += 1
        route = self._routes[at // QUARTER, names[1]]
        route[0] += 1
        route[1] = max(route[1], ms)
        self._statuses[minute, status] += 1
        spent = self._users[at // DAY, user]
        spent[0] += size
        spent[1] += 1
        spent[2] = max(spent[2], size)
        self._requests += 1
        self._bytes += size
        self._first = at if self._first is None else min(self._first, at)
        self._last = at if self._last is None else max(self._last, at)

    def manifest(self) -> dict[str, list[dict[str, Any]]]:
        """The rows by view name as `tandem query --json` prints them: exact measures only, in any order."""
        all_time = {
            "window_start": None,
            "window_end": None,
            "requests": self._requests,
            "bytes": self._bytes,
            "mean_bytes": self._bytes / max(self._requests, 1),
            "first": None if self._first is None else written_time(self._first),
            "last": None if self._last is None else written_time(self._last),
        }
        return {
            "page_traffic": [
                {"page": page, **window(minute, MINUTE), "hits": hits, "bytes": size}
                for (minute, page), (hits, size) in self._pages.items()
            ],
            "section_visitors": [
                {"section": section, **window(hour, HOUR), "requests": requests}
                for (hour, section), requests in self._sections.items()
            ],
            "route_latency": [
                {"route": route, **window(quarter, QUARTER), "slowest": slowest, "requests": requests}
                for (quarter, route), (requests, slowest) in self._routes.items()
            ],
            "status_counts": [
                {"status": status, **window(minute, MINUTE), "requests": requests}
                for (minute, status), requests in self._statuses.items()
            ],
            "user_bytes": [
                {"user": user, **window(day, DAY), "bytes": size, "largest": largest, "requests": requests}
                for (day, user), (size, requests, largest) in self._users.items()
            ],
            "totals": [all_time] if self._requests else [],
        }
