"""Code that is spread over modules: its meaning is what it computes, wherever it stands and however it is imported."""

import random
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.project.project import Project, load
from tests.samples import share


@dataclass(frozen=True)
class Graph:
    """Definitions by number: a constant's value, or the numbers of those that a function adds up, each below its own."""

    nodes: tuple[int | tuple[int, ...], ...]
    decoders: tuple[int, int]

    def value(self, number: int) -> int:
        node = self.nodes[number]
        return node if isinstance(node, int) else sum((place + 2) * self.value(one) for place, one in enumerate(node))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    nodes: list[int | tuple[int, ...]] = [draw(st.integers(1, 9)) for _ in range(4)]
    for number in range(4, draw(st.integers(7, 12))):
        nodes += [tuple(draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=3)))]
    return Graph(tuple(nodes), (draw(st.integers(4, len(nodes) - 1)), draw(st.integers(4, len(nodes) - 1))))


def written(graph: Graph, chance: random.Random) -> dict[str, str]:
    """The graph as a project: definitions in modules by ranges of numbers, each imported in one of many ways."""
    modules = chance.sample(["low", "high", "pkg.inner", "pkg.outer", "zero"], 3)
    bounds = sorted(chance.choices(range(len(graph.nodes) + 1), k=2))
    home = [modules[sum(number >= bound for bound in bounds)] for number in range(len(graph.nodes))]
    files = {"tandem.toml": "", "pkg/__init__.py": "'''Docstring.'''\n"}
    for module in modules:
        imports: list[str] = []
        blocks = []
        for number in [number for number in range(len(graph.nodes)) if home[number] == module]:
            node = graph.nodes[number]
            if isinstance(node, int):
                blocks.append(f"N{number} = {node}  # {chance.random()}")
                continue
            terms = []
            for place, one in enumerate(node):
                how, name = _imported(home[one], one, module, chance)
                imports.append(how)
                terms.append(f"{place + 2} * {name}{'' if isinstance(graph.nodes[one], int) else '()'}")
            blocks.append(f"def N{number}():\n    '''{chance.random()}'''\n    total = {' + '.join(terms)}\n    return total")
        chance.shuffle(blocks)
        path = f"{module.replace('.', '/')}.py"
        files[path] = "\n".join([*dict.fromkeys(imports), *blocks, f"UNUSED = {chance.random()}", ""])
    lines, code, sources, views = [], [], [], []
    for letter, number in zip("ab", graph.decoders, strict=True):
        how, name = _imported(home[number], number, "definitions", chance)
        lines.append(how)
        code.append(f"def read_{letter}(value): return Hit(datetime(2026, 1, 1, tzinfo=UTC), {name}())")
        views.append(f'{letter} = View(of_{letter}, measures={{"n": count()}})')
        sources.append(f'of_{letter} = Source(topic="{letter}", event=Hit, event_time="at", decoder=read_{letter})')
    head = ["from datetime import UTC, datetime", "from tandem import Event, Source, View, count", *lines]
    body = ["class Hit(Event):\n    at: datetime\n    number: int = 0", *code, *sources, *views]
    files["definitions.py"] = "\n".join([*head, *body, "SOURCES = (of_a, of_b)", "VIEWS = (a, b)", ""])
    return files


def _imported(module: str, number: int, into: str, chance: random.Random) -> tuple[str, str]:
    """An import of a definition, and what it is called after it."""
    name, last = f"N{number}", module.rpartition(".")[2]
    if module == into:
        return "", name
    ways = [
        (f"from {module} import {name}", name),
        (f"from {module} import {name} as other{number}", f"other{number}"),
        (f"import {module}", f"{module}.{name}"),
        (f"import {module} as whole_{last}", f"whole_{last}.{name}"),
        (f"from {module} import *", name),
    ]
    if module.startswith("pkg."):
        ways += [(f"from pkg import {last}", f"{last}.{name}")]
        if into.startswith("pkg."):
            ways += [(f"from .{last} import {name}", name), (f"from . import {last} as below", f"below.{name}")]
    return chance.choice(ways)


def project(files: dict[str, str]) -> Project:
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            (Path(folder) / path).parent.mkdir(exist_ok=True)
            (Path(folder) / path).write_text(text)
        return load(folder)


def computed(found: Project) -> dict[str, int]:
    """By view, the number that its source's decoder gives, whatever the value."""
    decoders = {name: view.source.decoder for name, view in found.views.items()}
    return {name: one(b"").number for name, one in decoders.items() if isinstance(one, FunctionType)}


@share(100, quick=4)
@given(graphs(), st.randoms(use_true_random=False), st.integers(0, 3))
def test_a_fingerprint_changes_if_and_only_if_a_number_does(graph: Graph, chance: random.Random, edited: int) -> None:
    """Moved, reordered and imported otherwise it is the same; with another constant it is another where that is reached."""
    before, moved = project(written(graph, chance)), project(written(graph, chance))
    assert computed(before) == computed(moved) == dict(zip("ab", map(graph.value, graph.decoders), strict=True))
    prints = {name: fingerprint(view) for name, view in before.views.items()}
    assert prints == {name: fingerprint(view) for name, view in moved.views.items()}
    nodes = list(graph.nodes)
    nodes[edited] = 100
    after = project(written(replace(graph, nodes=tuple(nodes)), chance))
    numbers, then = computed(before), computed(after)
    for name, view in after.views.items():
        assert (fingerprint(view) != prints[name]) is (then[name] != numbers[name])


STEPS = {
    "definitions.py": """
from datetime import UTC, datetime
from steps import helper
from tandem import Event, Source, View, count
class Hit(Event):
    at: datetime
    number: int = 0
    LOW: ClassVar[int] = 1
    HIGH: ClassVar[int] = LOW + 1
    def __post_init__(self):
        if self.number < self.HIGH: raise ValueError
def read(value): return Hit(datetime(2026, 1, 1, tzinfo=UTC), helper(1.5))
hits = Source(topic="hits", event=Hit, event_time="at", decoder=read)
a = View(hits, measures={"n": count()})
SOURCES = (hits,)
VIEWS = (a,)
""".replace("from datetime", "from typing import ClassVar\nfrom datetime", 1),
    "one.py": "def f(n): return 1\nclass K:\n    value = 1\n",
    "two.py": "def f(n): return 2\nclass K:\n    value = 2\n",
    "both.py": "from one import f as g\nfrom two import f\n",
    "tandem.toml": "",
}
CALLS_FLOOR = "def helper(n): return floor(n)"
OTHER = [
    ("from math import floor as f\ndef helper(n): return f(n)", "from math import ceil as f\ndef helper(n): return f(n)"),
    ("import math as m\ndef helper(n): return m.sqrt(n)", "import cmath as m\ndef helper(n): return m.sqrt(n)"),
    ("import os.path as p\ndef helper(n): return p.sep", "import ntpath as p\ndef helper(n): return p.sep"),
    (f"from math import *\n{CALLS_FLOOR}", f"from numpy import *\n{CALLS_FLOOR}"),
    ("def helper(n): return round(n)", "from math import *\ndef helper(n): return round(n)"),
    ("def helper(n): return round(n)", "from math import floor as round\ndef helper(n): return round(n)"),
    ("def helper(n): return round(n)", "def round(n): return 1\ndef helper(n): return round(n)"),
    ("from one import f\ndef helper(n): return f(n)", "from two import f\ndef helper(n): return f(n)"),
    ("import one, two\ndef helper(n): return one.f(n) - two.f(n)", "import one, two\ndef helper(n): return two.f(n) - one.f(n)"),
    ("import one as m\ndef helper(n): return m.f(n)", "import two as m\ndef helper(n): return m.f(n)"),
    ("import one as m\ndef helper(n): return vars(m)", "import two as m\ndef helper(n): return vars(m)"),
    ("from both import f\ndef helper(n): return f(n)", "from both import g\ndef helper(n): return g(n)"),
    ("import both\ndef helper(n): return both.f(n)", "import both\ndef helper(n): return both.g(n)"),
    ("from one import K\ndef helper(n): return K.value", "from two import K\ndef helper(n): return K.value"),
    ("from one import *\ndef helper(n): return f(n)", "from one import *\nfrom two import *\ndef helper(n): return f(n)"),
    ("from one import f\nfrom two import f\ndef helper(n): return f(n)",
     "from two import f\nfrom one import f\ndef helper(n): return f(n)"),
    ("try: from one import f\nexcept ImportError: from two import f\ndef helper(n): return f(n)",
     "try: from two import f\nexcept ImportError: from one import f\ndef helper(n): return f(n)"),
    ("from one import f\nclass C:\n    f = 1\n    def m(self): return f(self)\ndef helper(n): return C().m()",
     "from two import f\nclass C:\n    f = 1\n    def m(self): return f(self)\ndef helper(n): return C().m()"),
    ("from functools import cache as d\n@d\ndef helper(n): return n",
     "from functools import lru_cache as d\n@d\ndef helper(n): return n"),
    ("TABLE = {}\ndef helper(n): return TABLE[n]", "TABLE = {}\nTABLE[1] = 2\ndef helper(n): return TABLE[n]"),
]  # fmt: skip
ALIKE = [
    ("from one import f\ndef helper(n): return f(n)", "import one\ndef helper(n): return one.f(n)"),
    ("from one import f\ndef helper(n): return f(n)", "from both import g as h\ndef helper(n): return h(n)"),
    ("from one import f\ndef helper(n): return f(n)", "from both import *\ndef helper(n): return g(n)"),
    ("from one import f\ndef helper(n): return f(n)", "def f(x): return 1  # here\n\ndef helper(n): return f(n)"),
    ("import math\ndef helper(n): return math.floor(n)", "from math import floor as f\ndef helper(n): return f(n)"),
    ("import os\ndef helper(n): return os.path.sep", "import os.path as p\ndef helper(n): return p.sep"),
    ("from one import K\ndef helper(n): return K.value", "import one, two\nimport both\ndef helper(n): return one.K.value"),
    ("def helper(n): return n", "from one import *\nimport numpy\nX = 1\ndef helper(n): return n\ndef other(n): return X"),
]


def of_steps(steps: str, definitions: str = STEPS["definitions.py"]) -> str:
    return fingerprint(project({**STEPS, "definitions.py": definitions, "steps.py": steps}).views["a"])


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_code_that_reaches_something_else_has_another_fingerprint(one: str, other: str) -> None:
    """By whatever import, star, attribute of a module, decorator or class."""
    assert of_steps(one) != of_steps(other)


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_code_that_reaches_the_same_in_another_way_has_the_same_fingerprint(one: str, other: str) -> None:
    assert of_steps(one) == of_steps(other)


def test_an_attribute_that_a_class_reads_by_its_bare_name_counts() -> None:
    """HIGH is read by a method, and LOW by what gives HIGH its value."""
    steps, definitions = "def helper(n): return n", STEPS["definitions.py"]
    assert of_steps(steps) != of_steps(steps, definitions.replace("[int] = 1", "[int] = 3"))
