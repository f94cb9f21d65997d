"""Random questions to views of every kind of window and measure, and what the plain oracle says to each of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from random import Random
from typing import Any

import pyarrow as pa

from tandem.ledger.log.positions import Position
from tandem.serving.read.provenance import Layer
from tandem.serving.read.window_zone import LOCAL, with_local, zone_name
from tandem.views import oracle
from tandem.views.arrow import python_values
from tandem.views.kernel.kernel import decode, prepare
from tandem.views.kernel.rows import written
from tandem.views.oracle.answers import seen
from tandem.views.oracle.measures import meaning
from tandem.views.sql.engine import quoted
from tandem.views.view import View, answer_schema, approximations, bind, group_columns
from tests.serving.world import NOON, SOURCE, World

Row = dict[str, Any]

DEFINITIONS = """
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated

from tandem import (
    Event, Scale, Source, View, all_time, approx_count_distinct, approx_quantiles, bool_or, calendar, collect_set, count,
    count_window, first, funnel, hopping, matches, max_by, maximum, mean, minimum, pairs, rollup, session, Table,
    theta_sketch, total, tumbling, variance,
    total, tumbling, variance,
)


class Hit(Event):
    moment: datetime
    page: str | None
    bytes: int
    price: Annotated[Decimal, Scale(2)]
    ms: float
    ok: bool | None


hits = Source(topic="hits", event=Hit, event_time="moment")

hourly = View(
    source=hits,
    keys={"page": "page"},
    window=tumbling(hours=1),
    measures={
        "n": count(), "bytes": total("bytes"), "price": total("price"), "ms": total("ms"), "mean": mean("bytes"),
        "longest": maximum("page"), "least": minimum("ms"), "fine": bool_or("ok"), "spread": variance("bytes % 1000"),
        "pages": approx_count_distinct("bytes"), "typical": approx_quantiles("ms", (0.5, 0.99)),
    },
)
hops = View(
    source=hits,
    keys={"page": "page", "ok": "ok"},
    window=hopping(timedelta(minutes=30), every=timedelta(minutes=10)),
    measures={
        "n": count(), "price": total("price"), "most": max_by("page", "bytes", 2), "typical": approx_quantiles("ms", (0.5,)),
    },
)
visits = View(
    source=hits,
    keys={"price": "price"},
    window=session(minutes=10),
    measures={"n": count(), "began": first("page"), "names": collect_set("page"), "ms": mean("ms"),
              "got": funnel(("bytes < 1000", "NOT ok", "page = '/a'"), within=timedelta(minutes=20), by="price", limit=12),
              "runs": matches("slow+ any? ok", define={"slow": "ms > PREV(ms) OR bytes < 1000", "ok": "ok"}, limit=12),
              "gaps": pairs("ok", "bytes < 1000", within=timedelta(minutes=9), first=True, limit=12)},
)
days = View(
    source=hits,
    where="bytes > 0",
    keys={"size": "bytes % 5"},
    window=calendar("day", zone="Europe/Berlin"),
    measures={"n": count(), "dearest": maximum("price"), "exact": theta_sketch("page"), "latest": maximum("moment")},
)
ever = View(
    source=hits,
    measures={"n": count(), "bytes": total("bytes"), "price": mean("price"), "pages": approx_count_distinct("page"),
              "typical": approx_quantiles("ms", (0.1, 0.5, 0.9))},
)
threes = View(source=hits, keys={"ok": "ok"}, window=count_window(3), measures={"n": count(), "names": collect_set("page")})

SOURCES = (hits,)
daily = rollup(hourly, window=calendar("day", zone="Europe/Berlin"))
halves = rollup(hops, keys={"page": "lower(page)", "ok": "NOT ok"},
                window=hopping(timedelta(hours=1), every=timedelta(minutes=30)))
overall = rollup(daily, keys=(), window=all_time(), measures=("n", "price", "mean", "pages"))
newest = Table(hits, key={"page": "page"}, gone="ok", fields={"price": "price", "moment": "moment", "ok": "ok"})

VIEWS = (hourly, hops, visits, days, ever, threes, daily, halves, overall, newest)
"""
IN_ORDER = ("threes",)
PAGES = ("/a", "", 'q"u,o\r\nte', "it's", "é☃\u2028", " =1+1", "%2F&=+\\", "NULL", "null", None)
PRICES = ("0.10", "-3.00", "12345678.90")


def event(dice: Random) -> bytes:
    """Bytes of a record, one in thirty of which is no event. Sums of these doubles are exact, in whatever order."""
    if dice.random() < 1 / 30:
        return b"{broken"
    moment = NOON + timedelta(minutes=dice.randrange(-30, 150), microseconds=dice.choice((0, 1)))
    size = dice.choice((0, 1, dice.randrange(2000), 2**62))
    page, ok = dice.choice(PAGES), dice.choice((True, False, None))
    hit = {"page": page, "bytes": size, "price": dice.choice(PRICES), "ms": dice.randrange(-400, 4000) / 4, "ok": ok}
    return json.dumps({"moment": moment.isoformat(), **hit}).encode()


@dataclass(frozen=True)
class Question:
    """What every way can be asked of a view: values of some keys, when windows start, measures, an order, a number of rows."""

    view: View = field(repr=False)
    keys: dict[str, Any]
    start: datetime | None
    end: datetime | None
    layer: Layer
    measures: tuple[str, ...]
    order: tuple[tuple[str, bool], ...]
    limit: int

    @classmethod
    def drawn(cls, dice: Random, views: Mapping[str, View], *, layers: Sequence[Layer] = ("merged",)) -> "Question":
        """A question with a meaning; half of those for keys name some that events have."""
        view = views[dice.choice(sorted(views))]
        layers = [layer for layer in layers if layer != "speed" or view.name not in IN_ORDER]
        values: dict[str, Sequence[Any]] = {
            "page": (*PAGES, "/never"),
            "ok": (True, False, None),
            "price": [Decimal(price) for price in PRICES],
            "size": range(-1, 5),
            "valid_from": [NOON + timedelta(minutes=minute) for minute in range(-30, 150)],
        }
        some = dice.choice((0.0, 0.5, 1.0))
        keys = {name: dice.choice(values[name]) for name in view.keys if dice.random() < some}
        start = end = None
        if bind(view).placement.timing.bounded:
            drawn = sorted(NOON + timedelta(minutes=dice.randrange(-180, 180, 15)) for _ in range(2))
            start, end = [bound if dice.random() < 0.3 else None for bound in drawn]
        names = [name for name in view.measures if dice.random() < 0.7] or [*view.measures]
        schema = answer_schema(view)
        plain = [name for name in (*view.keys, "window_start", *exactly(view)) if not pa.types.is_nested(schema.field(name).type)]
        order = dice.sample(plain, dice.choice((0, 0, 1, 2))) if len(plain) > 1 else []
        ordered = tuple((name, dice.random() < 0.5) for name in order)
        return cls(view, keys, start, end, dice.choice(layers), tuple(names), ordered, dice.choice((1, 3, 7, 1000)))

    @property
    def columns(self) -> list[str]:
        """Of an answer those that are asked for, in order."""
        left_out = set(self.view.measures) - set(self.measures)
        return [name for name in answer_schema(self.view).names if name not in left_out]

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """The question in a URL, but for the number of rows."""
        found = [("layer", self.layer), ("measures", ",".join(self.measures))]
        for name, value in self.keys.items():
            found.append(("null", name) if value is None else (f"key.{name}", _text(value)))
        bounds = (("from", self.start), ("to", self.end))
        found += [(name, bound.isoformat()) for name, bound in bounds if bound is not None]
        if self.order:
            found.append(("order", ",".join(name if ascends else f"-{name}" for name, ascends in self.order)))
        return found

    @property
    def sql(self) -> str:
        """The question as a statement."""
        terms = [f"{quoted(name)} IS NOT DISTINCT FROM {_literal(value)}" for name, value in self.keys.items()]
        terms += [f"window_start >= TIMESTAMPTZ '{self.start.isoformat()}'"] if self.start else []
        terms += [f"window_start < TIMESTAMPTZ '{self.end.isoformat()}'"] if self.end else []
        where = f" WHERE {' AND '.join(terms)}" if terms else ""
        usual = [("window_start", True), *((name, True) for name in (*self.view.keys, *group_columns(self.view)))]
        by = (f"{quoted(name)} {'ASC' if up else 'DESC'} NULLS LAST" for name, up in (*self.order, *usual))
        columns = ", ".join(map(quoted, self.columns))
        return f"SELECT {columns} FROM {quoted(self.view.name)}{where} ORDER BY {', '.join(by)} LIMIT {self.limit}"

    def picked(self, rows: Sequence["Expected"]) -> list["Expected"]:
        """The rows that are asked for, in order, of all that there are in the usual one; not only the first of them."""

        def wanted(row: Expected) -> bool:
            starts = row.group["window_start"]
            after = self.start is None or starts >= self.start
            before = self.end is None or starts < self.end
            return after and before and all(row.group[name] == value for name, value in self.keys.items())

        found = [row for row in rows if wanted(row)]
        for name, ascends in reversed(self.order):
            there = [row for row in found if row.values[name] is not None]
            there.sort(key=lambda row: row.values[name], reverse=not ascends)
            found = [*there, *(row for row in found if row.values[name] is None)]
        return found

    def differ(self, expected: Sequence["Expected"], rows: Sequence[Row]) -> str | None:
        """What is otherwise in rows of an answer than the oracle says, None if nothing is."""
        if len(rows) != len(expected):
            return f"{len(rows)} rows instead of {len(expected)}"
        zone = zone_name(self.view)
        for number, (given, wanted) in enumerate(zip(rows, expected, strict=True)):
            row = {name: value for name, value in given.items() if name != LOCAL}
            if LOCAL in given and (zone is None or given != with_local(row, zone)):
                return f"row {number}: {given[LOCAL]} is not its window in zone {zone}"
            if [*row] != self.columns:
                return f"columns {[*row]} instead of {self.columns}"
            for name in self.columns:
                if name != "window_state" and not wanted.has(name, row[name]):
                    return f"row {number}, {name}: {row[name]!r} instead of {wanted.said.get(name, wanted.values[name])!r}"
        return None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _literal(value: Any) -> str:
    if value is None or isinstance(value, bool | int):
        return str(value).upper().replace("NONE", "NULL")
    return "'" + str(value).replace("'", "''") + "'"


def exactly(view: View) -> list[str]:
    """The measures of which every way says the very same."""
    estimates, schema = approximations(view), answer_schema(view)
    return [name for name in view.measures if name not in estimates and not pa.types.is_floating(schema.field(name).type)]


@dataclass(frozen=True)
class Expected:
    """A row as the oracle has it: what tells it from others, its values in Python, and those that are exact as JSON has them."""

    of: "Truth" = field(repr=False)
    group: dict[str, Any]
    values: dict[str, Any]
    said: Row

    def has(self, name: str, value: Any) -> bool:
        """Whether a value of an answer is right."""
        if name in self.said:
            return type(value) is type(self.said[name]) and bool(value == self.said[name])
        return self.of.near(name, tuple(self.group.values()), value)


@dataclass
class Truth:
    """What the plain oracle says of a view and the records of a range."""

    world: World
    view: View
    start: Position
    end: Position

    @cached_property
    def _groups(self) -> dict[Any, Any]:
        source = self.world.project.sources[SOURCE]
        decoded = decode(source, self.world.records(self.start, self.end))
        topics = tuple(dict.fromkeys(topic for topic, _ in self.world.places))
        return oracle.grouped(self.view, prepare(source, decoded.events, topics).events)[0]

    @cached_property
    def rows(self) -> list[Expected]:
        """All of them, in the usual order."""
        schema, columns, exact = answer_schema(self.view), group_columns(self.view), exactly(self.view)
        answers = oracle.answers(self.view, self._groups)
        values = [{**dict(zip(columns, group, strict=True)), **answer} for group, answer in answers.items()]
        said = {
            name: written(python_values.array([row[name] for row in values], schema.field(name).type), schema.field(name))
            for name in (*columns, *exact)
        }
        found = [
            Expected(self, {name: row[name] for name in columns}, row, {name: said[name][number] for name in said})
            for number, row in enumerate(values)
        ]
        usual = dict.fromkeys(("window_start", *self.view.keys, *columns))
        return sorted(found, key=lambda row: [_last_if_none(row.group[name]) for name in usual])

    def near(self, name: str, group: tuple[Any, ...], value: Any) -> bool:
        """Whether an estimate, or a double, is as near as its measure states."""
        told, known = meaning(self.view.measures[name]), approximations(self.view).get(name)
        assert told is not None  # the project made no measures of its own
        error = known.error if known is not None and known.error is not None else 0.0
        rows = seen(self._groups[group], name)
        return bool(told.answer(rows) == value or told.near(value, rows, error))


def _last_if_none(value: Any) -> tuple[Any, ...]:
    return (True,) if value is None else (False, value)


def in_order(view: View) -> bool:
    """Whether its windows follow the order of the log."""
    return bind(view).placement.in_order
