"""Values of the ledger can be hashed: what holds a mapping leaves it out of its hash, and equal values have equal hashes."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from tandem import ledger
from tandem.ledger.log.positions import Position
from tandem.ledger.realtime.commits import Commit


def _values() -> Iterator[type]:
    """The frozen dataclasses of the ledger that compare by their fields."""
    for module in pkgutil.walk_packages(ledger.__path__, "tandem.ledger."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and is_dataclass(value) and value.__module__ == module.name:
                parameters: Any = value.__dataclass_params__  # type: ignore[attr-defined]
                if parameters.frozen and parameters.eq:
                    yield value


def _mapping(hint: Any) -> bool:
    """Whether a value of this type is a mapping without a hash, or holds one."""
    types = [part for part in (hint, get_origin(hint)) if isinstance(part, type)]
    return any(issubclass(part, Mapping) and part.__hash__ is None for part in types) or any(map(_mapping, get_args(hint)))


@pytest.mark.parametrize("value", list(_values()), ids=lambda value: value.__name__)
def test_a_mapping_is_left_out_of_the_hash(value: Any) -> None:
    hints = get_type_hints(value)
    for field in fields(value):
        assert field.hash is False or not _mapping(hints[field.name]), field.name


def test_equal_commits_have_equal_hashes() -> None:
    one, other = (
        Commit(Position(), Position.of({("T", 0): 3}), 1, "fold", after_final={"f": 1}, partials={"f": b"states"}) for _ in "ab"
    )
    assert (one, hash(one)) == (other, hash(other))
