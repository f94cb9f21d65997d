"""Twenty views of one source, of many kinds; the first three are the baseline."""

from datetime import datetime, timedelta
from typing import Any

from tandem import (
    Event,
    Source,
    View,
    approx_count_distinct,
    approx_quantiles,
    calendar,
    count,
    hopping,
    maximum,
    mean,
    session,
    total,
    tumbling,
    variance,
)


class ScaleRequest(Event):
    id: str
    at: datetime
    user: str
    path: str
    status: int
    bytes: int
    ms: float


requests = Source(topic="scale", event=ScaleRequest, event_time="at", identity=("id",))


def of(window: Any, measures: dict[str, Any], key: str | None = None, where: str | None = None) -> View:
    return View(source=requests, keys={"k": key} if key else {}, window=window, measures=measures, where=where)


NUMBERS = {"n": count(), "bytes": total("bytes"), "largest": maximum("bytes"), "usual": mean("bytes")}
SKETCHES = {"visitors": approx_count_distinct('"user"'), "latency": approx_quantiles("ms", (0.5, 0.99))}
SPREAD = {"bytes": variance("bytes"), "slowest": maximum("ms")}
SECTION, ROUTE = "split_part(path, '/', 2)", "regexp_replace(path, '[0-9]+', ':id', 'g')"

by_path = of(tumbling(minutes=1), NUMBERS | SKETCHES, "path", "status < 500")
by_section = of(tumbling(hours=1), SKETCHES, SECTION)
by_user = of(tumbling(days=1), NUMBERS, '"user"')
by_status = of(tumbling(minutes=1), NUMBERS, "status")
by_route = of(tumbling(minutes=15), SPREAD, ROUTE)
errors = of(tumbling(minutes=5), NUMBERS, "path", "status >= 500")
minutes = of(tumbling(minutes=1), NUMBERS)
hours = of(tumbling(hours=1), NUMBERS | SKETCHES)
days = of(calendar("day", zone="Europe/Berlin"), NUMBERS, SECTION)
months = of(calendar("month", zone="America/New_York"), NUMBERS)
sliding = of(hopping(timedelta(minutes=5), every=timedelta(minutes=1)), NUMBERS, SECTION)
sliding_users = of(hopping(timedelta(hours=1), every=timedelta(minutes=10)), {"visitors": approx_count_distinct('"user"')})
visits = of(session(minutes=30), NUMBERS, '"user"')
slow = of(tumbling(minutes=1), {"n": count(), "slowest": maximum("ms")}, ROUTE, "ms > 100")
large = of(tumbling(hours=1), {"n": count()}, "path", "bytes > 100000")
spread = of(tumbling(minutes=1), SPREAD, "status")
odd = of(tumbling(minutes=1), NUMBERS, "bytes % 2 = 1")
users = of(tumbling(minutes=1), {"visitors": approx_count_distinct('"user"')}, SECTION)
latency = of(tumbling(minutes=1), {"latency": approx_quantiles("ms", (0.5, 0.9, 0.99))}, ROUTE)
weeks = of(calendar("week", zone="Asia/Tokyo"), NUMBERS, "status")

# Of the recompute of many keys.
per_user = of(tumbling(days=1), SKETCHES, '"user"')

TWENTY = (
    by_path,
    by_section,
    by_user,
    by_status,
    by_route,
    errors,
    minutes,
    hours,
    days,
    months,
    sliding,
    sliding_users,
    visits,
    slow,
    large,
    spread,
    odd,
    users,
    latency,
    weeks,
)

SOURCES = (requests,)
VIEWS = TWENTY
