"""Names of the platform's code: a class name means one thing, and a name says what a thing is.

`tests/allowed_names.toml` counts the exceptions that are left, by word. The counts are exact, so that they only shrink: whoever
removes one lowers its number.
"""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT

FOLDERS = ("views", "ledger", "infra", "batch", "speed", "serving", "cli", "bench", "dags", "src")
ALLOWED = tomllib.loads(Path(__file__).with_name("allowed_names.toml").read_text("utf-8"))

EMPTY = frozenset({"found", "given", "held", "known", "looked", "made", "one", "own", "said", "seen", "thing", "told"})
"""Words that say nothing of what they name. A value is named for what it holds, a loop's variable for what it goes through."""
IRREGULAR = frozenset(
    {"begun", "bound", "done", "kept", "left", "lost", "read", "sent", "shown", "spread", "taken", "torn", "written"}
) | (EMPTY - {"one", "own", "thing"})
NOUNS = frozenset({"bed", "feed", "need", "seed", "speed"})


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax of each module, by its path."""
    files = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py") if not file.is_symlink())
    return {str(file.relative_to(ROOT)): ast.parse(file.read_bytes()) for file in files}


def classes() -> dict[str, list[str]]:
    """The modules that define a class of each name."""
    found: dict[str, list[str]] = {}
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(path)
    return found


def bound(tree: ast.Module) -> Iterator[str]:
    """The names that a module binds: variables, parameters and functions."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.FunctionDef(name=name):
                yield name


def participle(name: str) -> bool:
    """Whether a function's name begins or ends as a participle: an effect is a verb, a value a noun."""
    words = name.strip("_").split("_")
    return any(word in IRREGULAR or (word.endswith("ed") and word not in NOUNS) for word in (words[0], words[-1]))


def functions() -> Iterator[str]:
    """The names of all functions."""
    yield from (node.name for tree in modules().values() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_a_class_name_means_one_thing() -> None:
    twice = {name: paths for name, paths in classes().items() if len(paths) > 1}
    assert {name: paths for name, paths in twice.items() if name not in ALLOWED["classes"]} == {}
    assert sorted(set(ALLOWED["classes"]) - set(twice)) == [], "these are used once now: take them out of allowed_names.toml"


@cache
def counts() -> Counter[str]:
    """How often the modules bind each name."""
    return Counter(name for tree in modules().values() for name in bound(tree))


@pytest.mark.parametrize("word", sorted(EMPTY))
def test_an_empty_word_names_no_more_than_before(word: str) -> None:
    number = counts()[word]
    assert number <= ALLOWED["empty"].get(word, 0), f"{word!r} says nothing of what it names"
    assert number == ALLOWED["empty"].get(word, 0), f"lower the number of {word!r} in allowed_names.toml to {number}"


def test_a_function_is_named_by_a_verb_or_a_noun() -> None:
    number = sum(map(participle, functions()))
    assert number <= ALLOWED["participles"], "name a new function for its effect (a verb) or its value (a noun)"
    assert number == ALLOWED["participles"], f"lower `participles` in allowed_names.toml to {number}"
