"""One fingerprint under every Python: a release that was applied under one is unchanged under another."""

import json
from collections.abc import Sequence

import pytest

from tandem.infra.folders import ROOT
from tests.views.golden import GOLDEN, digests, fingerprints, snippets, sources
from tests.views.pythons import VERSIONS, forms, interpreter


def of(version: str) -> str:
    found = interpreter(version)
    return found or pytest.skip(f"this machine has no Python {version}")


def test_fingerprints_of_the_examples_are_what_they_were() -> None:
    """Whatever Python runs this; a rename in the platform's own code changes none."""
    assert fingerprints() == json.loads(GOLDEN.read_text())["fingerprints"], "python -m tests.views.golden writes them anew"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_python_writes_the_normal_form_that_was_committed(version: str) -> None:
    found, committed = digests(of(version)), json.loads(GOLDEN.read_text())["forms"]
    assert found == committed, "python -m tests.views.golden writes them anew"


@pytest.mark.slow
def test_every_python_writes_our_own_code_alike() -> None:
    """Some hundred files more, and no piece of the hostile syntax fails to parse."""
    codes = [path.read_text("utf-8") for path in sorted((ROOT / "views").rglob("*.py"))]
    agree(VERSIONS, [*codes, *sources().values()])


def test_newer_syntax_has_one_form_wherever_it_parses() -> None:
    agree(VERSIONS[1:], snippets("newer_syntax.txt"))


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("def f[T: int](a: T) -> T: return a", "def f(a): return a"),
        ("def f[T](a: T) -> T:\n    def g[U](b: U): return b\n    return g", "def f(a):\n    def g(b): return b\n    return g"),
        ("""f"{"a"}{x:{"b"}}" """, """f"{'a'}{x:{'b'}}" """),
        ('f"{\n  x # here\n}"', 'f"{x}"'),
    ],
)
def test_newer_syntax_has_the_form_of_older_that_means_the_same(newer: str, older: str) -> None:
    for version in VERSIONS[1:]:
        one, other = forms(of(version), [newer, older])
        assert one == other


def agree(versions: Sequence[str], codes: Sequence[str]) -> None:
    """Every Python of these that there is writes the same, and parses all of it."""
    found = {version: forms(python, codes) for version in versions if (python := interpreter(version)) is not None}
    if len(found) < 2:
        pytest.skip(f"of Python {', '.join(versions)} this machine has {', '.join(found) or 'none'}")
    first, *others = found.values()
    for code, form, *rest in zip(codes, first, *others, strict=True):
        assert all(other == form and not other.startswith("SyntaxError") for other in (form, *rest)), (code, form, rest)
