"""Windows and measures of a project's own classes, whatever these derive from, answer over HTTP as those of the platform do."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving.http.served import Asker, Served
from tests.serving.world import World, hit, position

WINDOWS = {
    "tumbling": "Tumbling(timedelta(minutes=5))",
    "hopping": "Hopping(timedelta(minutes=10), timedelta(minutes=5))",
    "all_time": "AllTime()",
    "calendar": 'calendar("day", zone="Europe/Oslo")',
    "session": "Session(timedelta(minutes=3))",
    "every": "CountWindow(3)",
    "last": "SlidingCountWindow(4)",
    "delta": 'Delta("bytes", 3)',
    "punctuation": 'Punctuation("bytes = 4")',
}
DEFINITIONS = """
import dataclasses
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated

from tandem import Event, Scale, Source, View, calendar, count, derived, approx_count_distinct, mean, minimum, total, variance
from tandem.views.measures.filtered import Filtered
from tandem.views.windows import *


def own(part):
    \"\"\"The same, as a class of the project.\"\"\"
    kind = type("Own" + type(part).__name__, (type(part),), {"__module__": __name__})
    return kind(**{field.name: getattr(part, field.name) for field in dataclasses.fields(part) if field.init})


class Hit(Event):
    moment: datetime
    page: str | None
    bytes: int
    price: Annotated[Decimal, Scale(2)]


hits = Source(topic="hits", event=Hit, event_time="moment", lateness=timedelta(minutes=2))
MEASURES = dict(n=count(), sum=total("price"), mean=mean("bytes"), least=minimum("page"), spread=variance("bytes"),
                pages=approx_count_distinct("page"), some=Filtered(count(), "bytes > 3"), part=derived("sum / n"))
OWN = {name: own(one) if name in ("n", "sum", "mean", "least", "spread", "pages") else one for name, one in MEASURES.items()}
OWN["some"] = Filtered(own(count()), "bytes > 3")

measures_plain = View(hits, keys={"page": "page"}, window=tumbling(minutes=5), measures=MEASURES)
measures_own = View(hits, keys={"page": "page"}, window=tumbling(minutes=5), measures=OWN)
sliced_plain = View(hits, window=hopping(timedelta(minutes=10), every=timedelta(minutes=5)), measures=MEASURES)
sliced_own = View(hits, window=hopping(timedelta(minutes=10), every=timedelta(minutes=5)), measures=OWN)
@VIEWS@
SOURCES = (hits,)
VIEWS = (measures_plain, measures_own, sliced_plain, sliced_own, @NAMES@)
"""


def definitions() -> str:
    lines, names = [], []
    for name, window in WINDOWS.items():
        for kind, made in (("plain", window), ("own", f"own({window})")):
            lines.append(f'{name}_{kind} = View(hits, keys={{"page": "page"}}, window={made}, measures=MEASURES)')
            names.append(f"{name}_{kind}")
    lines.append("both_plain = View(hits, window=CountWindow(2), measures=MEASURES)")
    lines.append("both_own = View(hits, window=own(CountWindow(2)), measures=OWN)")
    names += ["both_plain", "both_own"]
    return DEFINITIONS.replace("@VIEWS@", "\n".join(lines)).replace("@NAMES@", ", ".join(names))


PAIRS = ("measures", "sliced", *WINDOWS, "both")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(tmp_path_factory.mktemp("own"), definitions=definitions())
    made.append(0, *(hit(f"/{n % 3}", n % 7, minute=n, price=f"{n}.25") for n in range(24)))
    made.append(1, *(hit(None if n % 4 == 0 else "/1", n, minute=30 + 2 * n) for n in range(6)))
    made.trigger(position(8, 2))
    made.recompute(position(8, 2))
    made.trigger(position(16, 4))
    return made


@pytest.fixture(scope="module")
def served(world: World) -> Served:
    return Served(world, change={"timeout_s": 30})


@pytest.fixture(scope="module")
def asker(served: Served, world: World) -> Iterator[Asker]:
    with served.asker() as found:
        for pair in PAIRS:  # they are in memory before the next commit
            found.get(f"/views/{pair}_own/rows")
        world.trigger(position(24, 6))
        yield found


def rows(asker: Asker, view: str) -> list[dict[str, Any]]:
    found = asker.get(f"/views/{view}/rows", params={"min_position": '{"T":{"0":24,"1":6}}', "limit": 1000})
    assert found.status_code == 200, found.text
    return found.json()["rows"]


def canonical(found: list[dict[str, Any]]) -> list[str]:
    return sorted(map(str, found))


@pytest.mark.parametrize("pair", PAIRS)
def test_custom_windows_and_measures_give_the_platforms_rows(asker: Asker, pair: str) -> None:
    expected = rows(asker, f"{pair}_plain")
    assert len(expected) > 0
    assert canonical(rows(asker, f"{pair}_own")) == canonical(expected)


@pytest.mark.parametrize("pair", PAIRS)
def test_statements_and_rows_of_one_key_work(asker: Asker, pair: str) -> None:
    said = [asker.post("/sql", json={"statement": f"SELECT * FROM {pair}_{kind}"}) for kind in ("plain", "own")]
    assert [one.status_code for one in said] == [200, 200], said[1].text
    plain, own = (canonical(one.json()["rows"]) for one in said)
    assert plain == own
    described = [asker.get(f"/views/{pair}_{kind}").json() for kind in ("plain", "own")]
    assert described[0]["measures"] == described[1]["measures"]


def test_one_row_and_one_range_work(asker: Asker) -> None:
    for path in (
        "/views/tumbling_{}/row?key.page=/1&window=2026-11-01T12:05:00Z",
        "/views/measures_{}/row?key.page=/1&window=2026-11-01T12:05:00Z",
        "/views/session_{}/rows?key.page=/1",
        "/views/sliced_{}/rows?from=2026-11-01T12:00:00Z&to=2026-11-01T12:20:00Z",
    ):
        plain, own = (asker.get(path.format(kind)) for kind in ("plain", "own"))
        assert (plain.status_code, own.status_code) == (200, 200), own.text
        assert [plain.json().get(name) for name in ("row", "rows")] == [own.json().get(name) for name in ("row", "rows")]
