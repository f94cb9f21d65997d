"""Normal form: equal for code that differs in what does not count, different for code that may do something else."""

import ast

import pytest

from tandem.views.fingerprint.normal_form import normal_form
from tandem.views.fingerprint.tree_text import text


def form(code: str) -> str:
    """The normal form of a module's statements."""
    return "\n".join(text(normal_form(statement)) for statement in ast.parse(code).body)


SAME = [
    ("def f(a, b): return a - b", "def f(x, y):\n    '''Subtract.'''\n    # Here.\n    return (x\n - y)"),
    ("def f(a: int) -> int: return a", "def f(b): return b"),
    ("def f(a):\n    b: int = a\n    return b", "def f(a):\n    c = a\n    return c"),
    ("def f(): return [x for x in range(3)]", "def f(): return [y for y in range(3)]"),
    ("def f(): return {k: v for k, v in g.items() if k}", "def f(): return {a: b for a, b in g.items() if a}"),
    ("f = lambda a, *b, c=1, **d: (a, b, c, d)", "f = lambda w, *x, y=1, **z: (w, x, y, z)"),
    ("def f():\n    def g(a): return a\n    return g(1)", "def f():\n    def h(b): return b\n    return h(1)"),
    ("def f():\n    a = 1\n    def g():\n        nonlocal a\n        a = 2",
     "def f():\n    b = 1\n    def g():\n        nonlocal b\n        b = 2"),
    ("def f():\n    try: pass\n    except E as e: print(e)", "def f():\n    try: pass\n    except E as x: print(x)"),
    ("def f():\n    with o() as a, o() as b: return a + b", "def f():\n    with o() as c, o() as d: return c + d"),
    ("def f(v):\n    match v:\n        case [a, *b]: return a\n        case {1: c, **d}: return d\n        case e: return e",
     "def f(v):\n    match v:\n        case [p, *q]: return p\n        case {1: r, **s}: return s\n        case t: return t"),
    ("def f():\n    if (a := g()): return a", "def f():\n    if (b := g()): return b"),
    ("def f():\n    import math as m\n    return m.pi", "def f():\n    import math as n\n    return n.pi"),
    ("async def f(a):\n    async for b in a: await b", "async def f(x):\n    async for y in x: await y"),
    ("X = u'a'", 'X = "a"'),
    ("X: int = 5", "X = 5"),
]  # fmt: skip
DIFFERENT = [
    ("def f(a, b): return a - b", "def f(a, b): return b - a"),
    ("def f(a): return g(a)", "def f(a): return h(a)"),
    ("def f(a): return a.b", "def f(a): return a.c"),
    ("def f(): return [x for x in x]", "def f(): return [y for y in y]"),
    ("def f(x): return [x for x in x]", "def f(x): return [y for y in z]"),
    ("def f():\n    global a\n    a = 1", "def f():\n    global b\n    b = 1"),
    ("def f():\n    global a\n    a = 1", "def f():\n    a = 1"),
    ("def f(a=x): return a", "def f(a=y): return a"),
    ("def f(x=x): return x", "def f(y=y): return y"),
    ("def f(a, *, b): return a", "def f(a, b): return a"),
    ("def f(): return g(a=1)", "def f(): return g(b=1)"),
    ("@g\ndef f(): pass", "@h\ndef f(): pass"),
    ("def f(): return 'a'", "def f(): return 'b'"),
    ("def f(): return 1", "def f(): return True"),
    ("def f(): return 1", "def f(): return 1.0"),
    ("class C:\n    a: int", "class C:\n    a: str"),
    ("class C:\n    a = 1", "class C:\n    b = 1"),
    ("class C:\n    def m(self): return self.x", "class C:\n    def m(self): return self.y"),
    ("def f():\n    import math as m\n    return m.pi", "def f():\n    import cmath as m\n    return m.pi"),
    ("def f():\n    a = 1\n    def g():\n        a = 2\n    return a",
     "def f():\n    a = 1\n    def g():\n        nonlocal a\n        a = 2\n    return a"),
    ("X = 5", "X = 6"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_local_names_and_looks_do_not_count(one: str, other: str) -> None:
    """Renamed locals and parameters, docstrings, comments, annotations and layout leave the form as it is."""
    assert form(one) == form(other)


def test_global_names_keep_their_names() -> None:
    """What a function shares with its module stays visible, so that it can be followed."""
    assert "%" not in form("def f():\n    global a\n    a = a + b")
    assert "%" not in form("class C:\n    a = 1\n    def m(): return b")


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_may_do_something_else_has_another_form(one: str, other: str) -> None:
    """Operations, global names, attributes, keywords, defaults, decorators and constants count, and their types too."""
    assert form(one) != form(other)
