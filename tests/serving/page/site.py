"""A website's hits for the page: a year with one busy day, some of it in the batch part, and hostile keys."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random

from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish.audits import Audit, AuditFigures, Audits
from tests.serving.world import NOON, World

DEFINITIONS = """
from datetime import datetime
from decimal import Decimal
from typing import Annotated

from tandem import Event, Scale, Source, Unit, View, approx_count_distinct, approx_quantiles, approx_top_k, count
from tandem import maximum, mean, minimum, total, tumbling


class Hit(Event):
    moment: datetime
    page: str | None
    user: str
    ms: Annotated[float, Unit("ms")]
    bytes: Annotated[int, Unit("B")]
    price: Annotated[Decimal, Scale(2)]


hits = Source(topic="hits", event=Hit, event_time="moment")

page_traffic = View(
    source=hits,
    doc="Requests of the website, by page.",
    keys={"page": "page"},
    window=tumbling(minutes=30),
    measures={
        "hits": count(),
        "bytes": total("bytes"),
        "visitors": approx_count_distinct('"user"'),
        "latency": approx_quantiles("ms", (0.5, 0.99)),
        "slowest": maximum("ms"),
    },
    docs={"visitors": "Different users."},
)
site = View(
    source=hits,
    doc="The whole site.",
    window=tumbling(minutes=30),
    measures={"hits": count(), "visitors": approx_count_distinct('"user"')},
)
totals = View(
    source=hits,
    doc="Everything ever, by page.",
    keys={"page": "page"},
    measures={"hits": count(), "bytes": total("bytes"), "revenue": total("price"), "users": approx_top_k('"user"', 3)},
)
odd = View(
    source=hits,
    where="price > 0",
    keys={"page": "page", "cheap": "price < 1"},
    window=tumbling(hours=24),
    measures={"most": maximum("bytes"), "sum": total("bytes"), "mean": mean("ms")},
)

SOURCES = (hits,)
VIEWS = (page_traffic, site, totals, odd)
"""

HUGE = 9_007_199_254_740_993
"""The first integer that a double cannot hold: 2^53 + 1."""

HOSTILE = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "\"><svg onload=document.title='owned'>",
    "javascript:document.title='owned'",
    "'-document.title='owned'-'",
    "{{constructor.constructor('document.title=1')()}}",
    "<iframe srcdoc=\"<script>parent.document.title='owned'</script>\">",
    "</textarea></title></style><script>document.title='owned'</script>",
    "&lt;b&gt; &amp; &#x3c;script&#x3e;",
    "<!--<script>--><script>document.title='owned'</script>",
    "\ufe64script\ufe65 %3Cscript%3E \\u003cscript\\u003e",
    "שלום עולם مرحبا",
    "a/b?c=d&e=f#g +h%20i",
    "",
)
"""Keys that would be markup, scripts, addresses or other parameters wherever somebody took them for that."""

LONG = "/long/" + "x" * 4000
PAGES = ("/", "/pricing", "/docs", "/blog/exact-cuts", "/signup")
_WEIGHTS = (9, 4, 5, 3, 2)


def hit(page: str | None, minute: float, *, user: str = "u1", ms: float = 20.0, size: int = 1200, price: str = "0.00") -> bytes:
    """One event's bytes; minutes count from noon."""
    moment = NOON + timedelta(minutes=minute)
    told = {"moment": moment.isoformat(), "page": page, "user": user, "ms": ms, "bytes": size, "price": price}
    return json.dumps(told).encode()


def day(seed: int = 7) -> Iterator[tuple[float, bytes]]:
    """The hits of the eighteen hours until noon, each with its minute, in order."""
    random = Random(seed)
    minute = -1080.0
    while minute < 0:
        hour = (minute / 60 + 36) % 24
        minute += random.expovariate(0.25 + 0.12 * max(0.0, hour - 5))
        (page,) = random.choices(PAGES, _WEIGHTS)
        user, ms = f"u{int(random.paretovariate(0.7)) % 4000}", round(random.lognormvariate(3, 0.6), 1)
        yield minute, hit(page, min(minute, -0.01), user=user, ms=ms, size=random.randrange(400, 90_000))


def site(folder: Path) -> World:
    """Two thirds of the day below the cut, archived with some records that are none; the rest in the realtime part."""
    made = World(folder, definitions=DEFINITIONS, appended=NOON - timedelta(minutes=30))
    hits = list(day())
    done = [value for minute, value in hits if minute < -360]
    made.append(0, *done[::2], b"{broken <b>\x1b[31m\xff", b'{"moment":"2026-11-01T08:00:00Z","page":"/x"}')
    made.append(1, *done[1::2])
    made.trigger()
    made.recompute(made.end)
    made.file_in_archive()
    rest = [value for minute, value in hits if minute >= -360]
    for n in range(0, len(rest), 400):
        made.append(n % 2, *rest[n : n + 400])
        made.trigger()
    audited(made)
    return made


def audited(world: World, runs: int = 12) -> None:
    """A history of audits: late duplicates in some runs, and one run over a bridge."""
    random = Random(3)
    for run in range(runs):
        at = NOON - timedelta(hours=runs - run)
        found = []
        for view, measure, share in (("page_traffic", "hits", 0.001), ("page_traffic", "bytes", 0.002), ("site", "hits", 0.0005)):
            differ = random.choice((0, 0, 1, 2, 5))
            error = share * differ * random.random()
            cause = "duplicate" if differ else "none"
            figures = AuditFigures(180, differ, differ, 3.0 * differ, 0.02 * differ, error, 0.0, cause)
            found.append(Audit(at, run + 1, 1, 1, view, measure, LOG_START, LOG_START, figures=figures))
        if run == 5:
            found = [Audit(at, run + 1, 1, 1, "page_traffic", "", LOG_START, LOG_START, obstacle="bridge")]
        Audits(world.tables).record(found)


def hostile(folder: Path) -> World:
    """Hits whose pages are HOSTILE, LONG and NULL, with numbers beyond what a double holds."""
    made = World(folder, definitions=DEFINITIONS)
    pages = (*HOSTILE, LONG, None)
    made.append(0, *(hit(page, n / 10, size=HUGE, price="0.10", ms=1.5) for n, page in enumerate(pages)))
    made.trigger()
    return made


ZONE = "America/New_York"
ZONED = (
    DEFINITIONS.replace("import Event, Scale", "import Event, Scale, calendar").split("SOURCES =")[0]
    + f"""
daily = View(
    source=hits,
    doc="Requests by day of New York.",
    window=calendar("day", zone="{ZONE}"),
    measures={{
        "hits": count(), "revenue": total("price"), "latency": approx_quantiles("ms", (0.5, 0.9, 0.99)), "slowest": maximum("ms"),
    }},
)
monthly = View(
    source=hits,
    doc="Requests by month of New York.",
    keys={{"page": "page"}},
    window=calendar("month", zone="{ZONE}"),
    measures={{"hits": count(), "bytes": total("bytes"), "slowest": maximum("ms"), "users": approx_top_k('"user"', 5)}},
)
SOURCES = (hits,)
VIEWS = (page_traffic, site, totals, odd, daily, monthly)
"""
)


def year(folder: Path) -> World:
    """Hits of the thirteen months until noon, in days and months of New York; the newer half is in the realtime part."""
    made = World(folder, definitions=ZONED, appended=NOON - timedelta(minutes=30))
    random = Random(5)
    for day in range(395, 0, -1):
        for n in range(3 + int(4 * random.random())):
            (page,) = random.choices(PAGES, _WEIGHTS)
            size, ms = random.randrange(400, 90_000), round(random.lognormvariate(3, 0.6), 1)
            made.append(
                day % 2, hit(page, 60.0 * n - 1440 * day, user=f"u{random.randrange(40)}", ms=ms, size=size, price="1.25")
            )
        if day in (210, 100, 1):
            made.trigger()
        if day == 210:
            made.recompute(made.end)
            made.file_in_archive()
    return made
