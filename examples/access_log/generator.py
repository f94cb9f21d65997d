"""Sample lines of an access log, and the expected answers of every view of this example.

`generate` yields samples (key, value, facts): a record's key (none here) and value, and the facts of a well-formed line,
None for a malformed one. `Truth` sums up facts in plain Python and imports nothing of the platform.
"""

import re
from collections import defaultdict, deque
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any, NamedTuple

from examples.traffic import DAY, HOUR, SECOND, broken, event_times, response_bytes, zipf
from examples.truth import EPOCH, window, written_time

SOURCE = "access"

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
RECENT = 500

HOSTS = tuple(f"198.51.{number // 250}.{number % 250}" for number in range(3_000))
# A request line and the target that it names: None where it is not HTTP.
REQUESTS = (
    *((f"GET /articles/{number} HTTP/1.1", f"/articles/{number}") for number in range(150)),
    ("-", None),
    ("\\x16\\x03\\x01", None),
    ('GET /find?q=\\"blue\\" HTTP/1.1', '/find?q=\\"blue\\"'),
    ("GET /naïve HTTP/1.1", "/naïve"),
    *((f"POST /forms/{number}?draft=1 HTTP/2.0", f"/forms/{number}?draft=1") for number in range(50)),
    *((f"GET /images/{number}.png HTTP/1.0", f"/images/{number}.png") for number in range(200)),
)
STATUSES = (200, 304, 404, 301, 500, 206, 403)
REFERERS = ("-", "https://example.org/", "https://example.org/articles/1", "https://search.example/?q=tandem")
AGENTS = ("Mozilla/5.0 (X11; Linux x86_64)", "curl/8.9", "-", 'Reader \\"Nova\\" 2.1', "Mozilla/5.0 (Macintosh)")
ZONES = ("+0000", "+0000", "+0000", "+0530", "-0800")


class Line(NamedTuple):
    """The facts of one well-formed line; `at` in microseconds, whole seconds."""

    at: int
    host: str
    method: str | None
    path: str | None
    status: int
    bytes: int
    referer: str | None


Sample = tuple[bytes | None, bytes, Line | None]

# Each takes a good line and breaks it in its own way.
BREAKS = (
    lambda _: b"",
    lambda _: b'{"host":"198.51.0.1","status":200}',
    lambda good: good[:-1],
    lambda good: good.rsplit(b' "', 1)[0],
    lambda good: good.replace(b"[", b"", 1),
    lambda good: good.replace(b" - - ", b" - ", 1),
    lambda good: good.replace(b" - - ", b" - j doe ", 1),
    lambda good: re.sub(rb"\[../.../", b"[31/Feb/", good),
    lambda good: re.sub(rb"/(\d{4}):", b"/1969:", good, count=1),
    lambda good: re.sub(rb" [+-]\d{4}\]", b"]", good),
    lambda good: re.sub(rb'" (\d{3}) ', b'" OK ', good, count=1),
    lambda good: re.sub(rb'" (\d{3}) (\d+|-) ', rb'" \1 -7 ', good, count=1),
    lambda good: re.sub(rb'" (\d{3}) (\d+|-) ', rb'" \1 99999999999999999999 ', good, count=1),
    lambda good: good[:-1] + b'\xff"',
    lambda good: good + b" extra",
)


def generate(seed: int, n: int, *, base: datetime, per_second: float = 20.0, duplicates: float = 0.0) -> Iterator[Sample]:
    """The first `n` samples of `seed`: the same ones for the same seed, base and shares, whatever `n` is.

    `base` is the first event time and `per_second` the mean number of events in a second of event time. `duplicates` is the
    share of lines that repeat one of the 500 before them: this source has no identity, so each of them counts.
    """
    if base.tzinfo is None:
        raise ValueError(f"base {base} has no time zone")
    times = event_times(Random(f"{seed} times"), (base - EPOCH) // timedelta(microseconds=1), per_second)
    hosts = zipf(Random(f"{seed} hosts"), HOSTS, 0.9)
    requests = zipf(Random(f"{seed} requests"), REQUESTS)
    statuses = zipf(Random(f"{seed} statuses"), STATUSES, 1.8)
    referers = zipf(Random(f"{seed} referers"), REFERERS)
    agents = zipf(Random(f"{seed} agents"), AGENTS)
    zones = zipf(Random(f"{seed} zones"), ZONES)
    sizes = response_bytes(Random(f"{seed} sizes"))
    breaks = broken(Random(f"{seed} breaks"), len(BREAKS))
    repeat = Random(f"{seed} repeats")
    recent: deque[tuple[bytes, Line]] = deque(maxlen=RECENT)
    half_hours: dict[tuple[int, str], tuple[str, int]] = {}
    for _ in range(n):
        if duplicates and recent and repeat.random() < duplicates:
            yield None, *repeat.choice(recent)
            continue
        at = next(times) // SECOND
        host, status, referer, agent, zone = next(hosts), next(statuses), next(referers), next(agents), next(zones)
        request, path = next(requests)
        size = 0 if status == 304 else next(sizes)
        number, within = divmod(at, 1800)
        half_hour = half_hours.get((number, zone))
        if half_hour is None:
            half_hour = half_hours[number, zone] = _half_hour(number * 1800, zone)
        minute, second = divmod(within, 60)
        value = (
            f"{host} - - [{half_hour[0]}:{half_hour[1] + minute:02d}:{second:02d} {zone}] "
            f'"{request}" {status} {size or "-"} "{referer}" "{agent}"'
        ).encode()
        kind = next(breaks)
        if kind is not None:
            yield None, BREAKS[kind](value), None
            continue
        method = request.split(" ", 1)[0] if path else None
        facts = Line(at * SECOND, host, method, path, status, size, None if referer == "-" else referer)
        if duplicates:
            recent.append((value, facts))
        yield None, value, facts


def _half_hour(seconds: int, zone: str) -> tuple[str, int]:
    """The day and hour, as the log writes them, and the first minute of the half hour this many seconds after 1970."""
    sign = -1 if zone[0] == "-" else 1
    offset = timezone(sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[3:])))
    when = (EPOCH + timedelta(seconds=seconds)).astimezone(offset)
    return f"{when.day:02d}/{MONTHS[when.month - 1]}/{when.year}:{when.hour:02d}", when.minute


class Truth:
    """The expected answers of every view of this example for the facts added so far."""

    def __init__(self) -> None:
        self._paths: defaultdict[tuple[int, str | None], list[int]] = defaultdict(lambda: [0, 0])
        self._statuses: defaultdict[tuple[int, str | None, int], int] = defaultdict(int)
        self._links: defaultdict[tuple[int, str | None, str], int] = defaultdict(int)
        self._clients: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0, 0, 2**63, 0])
        self._hits = 0
        self._bytes = 0

    def add(self, facts: Line) -> None:
        """Count one well-formed line."""
        at, host, method, path, status, size, referer = facts
        hour = at // HOUR
        traffic = self._paths[hour, path]
        traffic[0] += 1
        traffic[1] += size
        self._statuses[hour, method, status] += 1
        if status == 404 and referer is not None:
            self._links[at // DAY, None if path is None else path.split("?")[0], referer] += 1
        client = self._clients[at // DAY, host]
        client[0] += 1
        client[1] += size
        client[2] = max(client[2], size)
        client[3] = min(client[3], at)
        client[4] = max(client[4], at)
        self._hits += 1
        self._bytes += size

    def manifest(self) -> dict[str, list[dict[str, Any]]]:
        """The rows by view name as `tandem query --json` prints them: exact measures only, in any order."""
        all_time = {"window_start": None, "window_end": None, "hits": self._hits, "bytes": self._bytes}
        return {
            "path_traffic": [
                {"path": path, **window(hour, HOUR), "hits": hits, "bytes": size}
                for (hour, path), (hits, size) in self._paths.items()
            ],
            "status_counts": [
                {"method": method, "status": status, **window(hour, HOUR), "hits": hits}
                for (hour, method, status), hits in self._statuses.items()
            ],
            "broken_links": [
                {"path": path, "referer": referer, **window(day, DAY), "hits": hits}
                for (day, path, referer), hits in self._links.items()
            ],
            "clients": [
                {"host": host, **window(day, DAY), "hits": hits, "bytes": size, "largest": largest}
                | {"first": written_time(first), "last": written_time(last)}
                for (day, host), (hits, size, largest, first, last) in self._clients.items()
            ],
            "totals": [all_time] if self._hits else [],
        }
