"""The meaning of a definition, as a tree of named parts.

A fingerprint is a tree's hash (views/fingerprint/hashed_parts.py), and `plan` compares two trees
(views/fingerprint/definition_diff.py). So `plan` can name every part that changes a fingerprint.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from textwrap import shorten
from typing import Any, Final, Literal

from tandem.views.project.isolated_import import PLATFORM

_CHARACTERS: Final = 16
_LONGEST: Final = 160


@dataclass(frozen=True)
class Meaning:
    """One part of a definition: a filter, a measure, a field of the event type, a function of the project that it reaches.

    Hashed are `value`, which JSON can hold (`canonical` is the value as JSON), the `parts` below it, and their `order` if given.
    For readers only are `name`; `text`, as a definition writes the part (empty for code); and `notes`, such as a unit.
    """

    name: str = field(compare=False)
    value: Any = field(default=None, compare=False)
    text: str = field(default="", compare=False)
    parts: Mapping[str, "Meaning"] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict, compare=False)
    canonical: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # As JSON, because 0, 0.0 and False are equal in Python.
        object.__setattr__(self, "canonical", json.dumps(self.value, sort_keys=True, separators=(",", ":")))


def digest(meaning: Meaning) -> str:
    """A short hash: equal for equal meanings, in every process and on every machine."""
    canonical = json.dumps(_counted(meaning), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:_CHARACTERS]


def _counted(meaning: Meaning) -> list[Any]:
    return [meaning.canonical, {key: _counted(part) for key, part in meaning.parts.items()}, meaning.order]


@dataclass(frozen=True)
class Difference:
    """Parts that differ in meaning, or only in how they are written; `path` leads to them from the root."""

    path: tuple[str, ...]
    how: Literal["added", "removed", "changed", "rewritten"]
    words: str


def differences(before: Meaning, after: Meaning, path: tuple[str, ...] = ()) -> Iterator[Difference]:
    """The differences, at least one for different meanings; a part that was replaced is reported as a whole."""
    name = after.name
    if before.canonical != after.canonical:
        yield Difference(path, "changed", f"{name}{_arrow(before.text, after.text) or ' changed'}")
        return
    if before == after and before.text != after.text:
        yield Difference(path, "rewritten", f"{name}, written otherwise{_arrow(before.text, after.text)}")
    for what in {**before.notes, **after.notes}:
        old, new = before.notes.get(what, ""), after.notes.get(what, "")
        if old != new:
            yield Difference(path, "rewritten", f"{what} of {name}{_arrow(old or 'none', new or 'none') or ' changed'}")
    shuffled = before.order != after.order
    if before.parts.keys() == after.parts.keys() and (shuffled or [*before.parts] != [*after.parts]):
        how: Literal["changed", "rewritten"] = "changed" if shuffled else "rewritten"
        yield Difference(path, how, f"{name}, in another order{_arrow(', '.join(before.parts), ', '.join(after.parts))}")
    for key in {**before.parts, **after.parts}:
        old_part, new_part = before.parts.get(key), after.parts.get(key)
        if old_part is None and new_part is not None:
            yield Difference((*path, key), "added", _appeared(new_part))
        elif old_part is not None and new_part is None:
            yield Difference((*path, key), "removed", _disappeared(old_part))
        elif old_part is not None and new_part is not None:
            yield from differences(old_part, new_part, (*path, key))


def _appeared(part: Meaning) -> str:
    return f"{part.name} added: {_short(part.text)}" if part.text else f"{part.name} is used now"


def _disappeared(part: Meaning) -> str:
    return f"{part.name} removed" if part.text else f"{part.name} is no longer used"


def _arrow(before: str, after: str) -> str:
    """The old and the new text; empty if both are equal."""
    old, new = _short(before), _short(after)
    return f": {old} -> {new}" if old != new else ""


def _short(text: str) -> str:
    return shorten(text, _LONGEST, placeholder=" ...")


def counted_package(module: str) -> str | None:
    """The package of a module; None for Python's own modules and Tandem, whose versions do not count here."""
    root = module.split(".", maxsplit=1)[0]
    return root if root and root not in sys.stdlib_module_names and root not in PLATFORM else None


def version_of(package: str) -> Meaning:
    """A package as a part: the name of its module, and its installed version."""
    installed = _version(package)
    return Meaning(f"package {package}", installed, installed)


def _version(root: str) -> str:
    try:
        return version(root)
    except PackageNotFoundError:
        names = packages_distributions().get(root, [])  # slow: reads every package's list of files
        return version(names[0]) if names else "unknown"
