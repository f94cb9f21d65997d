"""A project in seven files, most of whose meaning is not in the file that defines its views, and edits of one text each."""

from pathlib import Path

from tandem.views.project.project import Project, load

DEFINITIONS = '''
"""A shop."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, ClassVar, Literal
from uuid import UUID

import msgspec
import numpy

import rules
from lines import as_it_is, by_word, read_line, Line
from rules import cap as capped
from spread import Spread
from tandem import Event, Scale, Source, Unit, View, count, csv, derived, maximum, mean, approx_quantiles, total, tumbling

UNUSED = 1
PATTERN = re.compile("a+")


class Size(Enum):
    SMALL = "s"
    LARGE = "l"

    @classmethod
    def _missing_(cls, value):
        return cls.SMALL if value == rules.small() else None


class Place(msgspec.Struct):
    city: str
    lanes: list[int] = []


class Floor(Event):
    FLOOR: ClassVar[int] = 0


class Base(Floor):
    def low(self) -> int:
        return self.FLOOR


class Order(Base):
    """An order."""

    id: str
    at: datetime
    size: Size
    price: Annotated[Decimal, Scale(2)]
    place: Place
    amount: Annotated[int, msgspec.Meta(ge=0, description="pieces")] = 1
    note: str | None = None
    channel: Literal["web", "shop"] = "web"
    tags: list[str] = msgspec.field(default_factory=lambda: ["none"])

    def __post_init__(self) -> None:
        """Check it."""
        # A comment.
        held = capped(self.amount)
        if held > rules.LIMITS["most"] or not self.valid(held):
            raise ValueError("too many")

    def valid(self, amount: int) -> bool:
        return amount >= self.low() and PATTERN.match(self.id) is None and numpy.isfinite(amount)

    def unused(self) -> int:
        return UNUSED


orders = Source(topic="orders", event=Order, event_time="at", identity=("id", "size"))
copies = Source(topic="copies", event=Order, event_time="at", identity=("id", "size"))
lines = Source(topic="lines", event=Line, event_time="at", decoder=read_line, prepare=by_word)

sales = View(
    source=orders,
    keys={"size": "size", "big": "amount > 10"},
    where="amount > 0",
    window=tumbling(minutes=1),
    measures={
        "n": count(),
        "paid": total("price"),
        "q": approx_quantiles("amount", (0.5, 0.9)),
        "most": maximum("amount", filter="amount < 9"),
        "each": derived("paid / n"),
    },
    doc="What is sold.",
    units={"paid": "EUR"},
)
words = View(lines, keys={"line": "text"}, measures={"n": count(), "spread": Spread("length", 2)})

SOURCES = (orders, copies, lines)
VIEWS = (sales, words)
'''
LINES = """
from datetime import datetime

import pyarrow.compute as pc

from tables.shifts import fields_of
from tandem import Event

LONGEST = 80


class Line(Event):
    at: datetime
    text: str
    length: int = 0


def read_line(value: bytes) -> Line:
    at, text = fields_of(value)
    return Line(at=datetime.fromisoformat(at), text=text[:LONGEST], length=len(text))


def as_it_is(events):
    return events


def stop(word):
    return "the"


def by_word(events):
    split = pc.split_pattern_regex(events["text"].combine_chunks(), " ")
    found = events.take(pc.list_parent_indices(split)).append_column("word", pc.list_flatten(split))
    return found.filter(pc.not_equal(found["word"], stop(0)))
"""
SPREAD = '''
from dataclasses import dataclass

import pyarrow as pa

from rules import widest
from tandem import CustomMeasure


@dataclass(frozen=True)
class Spread(CustomMeasure):
    """From the least to the greatest."""

    expression: str
    digits: int
    state = pa.list_(pa.int64())
    answer = pa.int64()

    @property
    def inputs(self):
        return (self.expression,)

    def partial(self, groups):
        return pa.array([self.ends([row["v0"] for row in rows]) for rows in groups.to_pylist()], self.state)

    def merge(self, groups):
        return pa.array([self.ends(sum(states, [])) for states in groups.to_pylist()], self.state)

    def present(self, states):
        return pa.array([widest(state) for state in states.to_pylist()], self.answer)

    def ends(self, numbers):
        return [min(numbers), max(numbers)]

    def strategy(self):
        return None
'''
RULES = '''
from tables.limits import LIMITS, FACTOR as factor
from tables import *

WIDER = 0

def cap(number):
    """Cap a number."""
    result = number * factor + shift()
    return [part for part in range(result)][-1] if result else 0

def small():
    return "x"

def widest(state):
    return state[1] - state[0] + WIDER

def unused():
    return factor + 1
'''
LIMITS = """
LIMITS = {"least": 1}
LIMITS["most"] = 7
OTHER = {}
OTHER["most"] = 8
FACTOR = 3
try:
    import json as fast
except ImportError:
    fast = None
"""
TABLES = """
from .shifts import shift
"""
SHIFTS = """
SHIFT = 4
MARK = b"|"

def shift() -> int:
    global COUNTER
    return SHIFT

def fields_of(value):
    first, _, rest = value.partition(MARK)
    return first.decode(), rest.decode()
"""
FILES = {
    "tandem.toml": "",
    "definitions.py": DEFINITIONS,
    "lines.py": LINES,
    "spread.py": SPREAD,
    "rules.py": RULES,
    "tables/__init__.py": TABLES,
    "tables/limits.py": LIMITS,
    "tables/shifts.py": SHIFTS,
}


def edited(folder: Path, *edits: tuple[str, str, str]) -> Project:
    """The project, loaded from a folder; each edit replaces one text by another in a file."""
    texts = dict(FILES)
    for file, old, new in edits:
        assert texts[file].replace(old, new) != texts[file], old
        texts[file] = texts[file].replace(old, new)
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return load(folder)
