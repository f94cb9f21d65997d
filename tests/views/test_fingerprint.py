"""A fingerprint changes when a number could, and stays when none can."""

import os
import subprocess
import sys
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

import pytest

from views.event import Event
from views.fingerprint import decoder_fingerprint, fingerprint
from views.project import Project, load_files
from views.reached import reached

ROOT = Path(__file__).parents[2]

DEFINITIONS = '''
"""A shop."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, ClassVar
from uuid import UUID

import msgspec
import numpy

import rules
from rules import cap as capped
from views import Event, Scale, Source, View, count, maximum, quantiles, total, tumbling

UNUSED = 1
PATTERN = re.compile("a+")


class Size(Enum):
    SMALL = "s"
    LARGE = "l"

    @classmethod
    def _missing_(cls, value):
        return cls.SMALL if value == rules.small() else None


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
    amount: Annotated[int, msgspec.Meta(ge=0, description="pieces")] = 1
    note: str | None = None
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

sales = View(
    source=orders,
    keys={"size": "size", "big": "amount > 10"},
    where="amount > 0",
    window=tumbling(minutes=1),
    measures={"n": count(), "paid": total("price"), "q": quantiles("amount", (0.5, 0.9)), "most": maximum("amount")},
)

SOURCES = (orders, copies)
VIEWS = (sales,)
'''
RULES = '''
from tables.limits import LIMITS, FACTOR as factor
from tables import *

def cap(number):
    """Cap a number."""
    result = number * factor + shift()
    return [part for part in range(result)][-1] if result else 0

def small():
    return "x"

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

def shift() -> int:
    global COUNTER
    return SHIFT
"""
FILES = {
    "tandem.toml": "",
    "definitions.py": DEFINITIONS,
    "rules.py": RULES,
    "tables/__init__.py": TABLES,
    "tables/limits.py": LIMITS,
    "tables/shifts.py": SHIFTS,
}


def project(file: str = "", old: str = "", new: str = "") -> Project:
    """The project with one text replaced in one file."""
    texts = dict(FILES)
    if file:
        assert old in texts[file]
        texts[file] = texts[file].replace(old, new)
    return load_files({path: text.encode() for path, text in texts.items()})


def decoder(loaded: Project) -> str:
    """The decoder's fingerprint of `orders`."""
    return decoder_fingerprint(loaded.sources["orders"])


DECODING = [
    ("definitions.py", "note: str", "remark: str"),
    ("definitions.py", "note: str", "note: int"),
    ("definitions.py", "ge=0", "ge=1"),
    ("definitions.py", "] = 1", "] = 2"),
    ("definitions.py", "Scale(2)", "Scale(3)"),
    ("definitions.py", "note: str | None", "note: str"),
    ("definitions.py", "id: str", "id: UUID"),
    ("definitions.py", '["none"]', '["some"]'),
    ("definitions.py", "class Base(Floor)", 'class Base(Floor, rename="upper")'),
    ("definitions.py", "class Base(Floor)", "class Base(Floor, forbid_unknown_fields=True)"),
    ("definitions.py", "class Base(Floor)", "class Base(Floor, array_like=True)"),
    ("definitions.py", '"l"', '"xl"'),
    ("definitions.py", "held > rules", "held >= rules"),
    ("definitions.py", "amount >= self.low()", "amount > self.low()"),
    ("definitions.py", "FLOOR: ClassVar[int] = 0", "FLOOR: ClassVar[int] = 1"),
    ("definitions.py", "return self.FLOOR", "return -self.FLOOR"),
    ("definitions.py", '"a+"', '"b+"'),
    ("definitions.py", "import cap as", "import small as"),
    ("definitions.py", "value == rules", "value != rules"),
    ("definitions.py", "identity=", ("plausible=(datetime.fromisoformat('2020-01-01T00:00:00+00:00'), "
     "datetime.fromisoformat('2021-01-01T00:00:00+00:00')), identity=")),
    ("rules.py", "number * factor", "number + factor"),
    ("rules.py", '"x"', '"y"'),
    ("rules.py", "import LIMITS, FACTOR as factor", "import OTHER as LIMITS, FACTOR as factor"),
    ("tables/limits.py", '["most"] = 7', '["most"] = 9'),
    ("tables/limits.py", "FACTOR = 3", "FACTOR = 2 + 1"),
    ("tables/shifts.py", "SHIFT = 4", "SHIFT = 5"),
    ("tables/shifts.py", "return SHIFT", "return -SHIFT"),
]  # fmt: skip
NOT_DECODING = [
    ("definitions.py", '"""An order."""\n', ""),
    ("definitions.py", "# A comment.", "# Another."),
    ("definitions.py", '"""Check it."""\n', ""),
    ("definitions.py", "held", "kept"),
    ("definitions.py", 'description="pieces"', 'description="boxes"'),
    ("definitions.py", "UNUSED = 1", "UNUSED = 2"),
    ("definitions.py", "return UNUSED", "return UNUSED + 1"),
    ("definitions.py", "    id: str\n    at: datetime\n", "    at: datetime\n    id: str\n"),
    ("definitions.py", "LARGE", "HUGE"),
    ("definitions.py", "event_time=", "lateness=__import__('datetime').timedelta(1), event_time="),
    ("definitions.py", "event_time=", "idle=__import__('datetime').timedelta(1), event_time="),
    ("definitions.py", 'topic="orders"', 'topic="orders2"'),
    ("rules.py", "result", "capped"),
    ("rules.py", "part", "piece"),
    ("rules.py", "(number)", "(number: int) -> int"),
    ("rules.py", '"""Cap a number."""', "'''Another docstring.'''; 'and a constant'"),
    ("rules.py", "factor + 1", "factor + 2"),
    ("tables/limits.py", "= 8", "= 9"),
    ("tables/limits.py", "FACTOR = 3", "FACTOR: int = (3)  # comment"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new"), DECODING, ids=lambda text: text[:40])
def test_what_changes_events_changes_both_fingerprints(file: str, old: str, new: str) -> None:
    """Types, constraints, defaults, methods, and functions and constants of the project two modules away count."""
    before, after = project(), project(file, old, new)
    assert decoder(after) != decoder(before)
    assert fingerprint(after.views["sales"]) != fingerprint(before.views["sales"])


@pytest.mark.parametrize(("file", "old", "new"), NOT_DECODING, ids=lambda text: text[:40])
def test_what_changes_no_event_changes_no_fingerprint(file: str, old: str, new: str) -> None:
    """Comments, docstrings, formatting, local names, order of fields, labels and code that is not reached do not count."""
    before, after = project(), project(file, old, new)
    assert decoder(after) == decoder(before)
    assert fingerprint(after.views["sales"]) == fingerprint(before.views["sales"])


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("amount > 0", "amount >= 0", False),
        ("amount > 0", "(amount)  >  0 -- positive", True),
        ("amount > 0", "AMOUNT > 0", True),
        ("keys={", "keys={'id': 'id', ", False),
        ('{"size": "size", "big": "amount > 10"}', '{"big": "amount > 10", "size": "size"}', False),
        ('"big"', '"huge"', False),
        ("minutes=1", "minutes=2", False),
        ("minutes=1", "seconds=60", True),
        ('"n": count(), "paid": total("price")', '"paid": total( " price " ), "n": count()', True),
        ("0.9)", "0.99)", False),
        ('maximum("amount")', 'maximum("-amount")', False),
        ('"most": maximum', '"top": maximum', False),
        ('total("price")', 'total("-price")', False),
        ("source=orders", "source=copies", False),
        ('("id", "size")', '("size", "id")', True),
        ('("id", "size")', '("id",)', False),
        ("sales", "sold", True),
    ],
)
def test_a_views_own_parts_count_for_it_alone(old: str, new: str, same: bool) -> None:  # noqa: FBT001  a column of the table
    """Filter, keys, window, measures, identity and source count by meaning; the decoder's fingerprint knows none of them."""
    before, after = project(), project("definitions.py", old, new)
    (view,) = after.views.values()
    assert (fingerprint(view) == fingerprint(before.views["sales"])) is same
    assert decoder(after) == decoder(before)


def test_packages_count_by_their_version() -> None:
    """Of a package that the project's code reaches, the version counts; of Python's own modules nothing does."""
    code = reached([project().sources["orders"].event])
    assert {key for key in code if "==" in key} == {"numpy=="}
    assert code["numpy=="] == version("numpy")
    assert not [key for key in code if "unused" in key.casefold() or "OTHER" in key]


def test_a_fingerprint_is_the_same_in_every_process_and_folder(tmp_path: Path) -> None:
    """Nothing of a process or a place, such as the order of a set, an address or a path, is in a fingerprint."""
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    script = (
        "import sys; from views.fingerprint import *; from views.project import load; found = load(sys.argv[1]); "
        "print(decoder_fingerprint(found.sources['orders']), fingerprint(found.views['sales']), end='')"
    )
    environment = os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", script, tmp_path], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == f"{decoder(project())} {fingerprint(project().views['sales'])}"


def test_an_event_type_outside_a_project_is_covered_by_its_own_module() -> None:
    """A test's event type has a fingerprint too, which covers its methods."""

    class Ping(Event):
        at: datetime

        def __post_init__(self) -> None:
            if self.at.year < EARLIEST:
                raise ValueError("too early")

    code = reached([Ping])
    assert len(code) == 2
    assert "1990" in "".join(code.values())


EARLIEST = 1990
