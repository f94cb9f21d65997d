"""A question to one view, as a value: two requests that ask the same have equal ones."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

import pyarrow as pa

from serving.read.provenance import Layer
from serving.read.selection import ALWAYS, BadSelection, Between
from views.errors import listed
from views.view import View, answer_schema


@dataclass(frozen=True)
class Question:
    """Rows of a view that have the given `keys` and whose window starts `between` two times, in an `order`.

    `order` has columns with whether they ascend; after them the rows are by window and keys.
    """

    view: View
    keys: Mapping[str, pa.Scalar]
    between: Between = ALWAYS
    layer: Layer = "merged"
    publication: int | None = None
    order: tuple[tuple[str, bool], ...] = ()

    @property
    def whole(self) -> "Question":
        """The same of all rows of the view."""
        return replace(self, keys={}, between=ALWAYS, order=())

    @property
    def digest(self) -> str:
        """The same text for the same question, another one for another."""
        keys = {name: [value.is_valid, str(value.as_py())] for name, value in sorted(self.keys.items())}
        between = [None if bound is None else bound.isoformat() for bound in self.between]
        parts = [self.view.name, keys, between, self.layer, self.publication, self.order]
        return sha256(json.dumps(parts).encode()).hexdigest()[:24]


def outside(keys: Mapping[str, pa.Scalar], bound: Mapping[str, pa.Scalar]) -> bool:
    """Whether no row with these keys is among those that somebody may see who is bound to values of keys."""
    return any(name in keys and not keys[name].equals(value) for name, value in bound.items())


def parse_order(view: View, text: str) -> tuple[tuple[str, bool], ...]:
    """Columns of the answer by comma, each with a minus if it descends. Raises BadSelection."""
    schema, found = answer_schema(view), []
    for part in text.split(","):
        name = part.removeprefix("-")
        if name not in schema.names:
            raise BadSelection(f"view {view.name!r} has no column {name!r} to order by; columns: {listed(name, schema.names)}")
        if pa.types.is_nested(schema.field(name).type):
            raise BadSelection(f"rows cannot be ordered by {name!r}, which has several values per row")
        found.append((name, not part.startswith("-")))
    if len(dict(found)) < len(found):
        raise BadSelection(f"order={text} names a column twice")
    return tuple(found)


def parse_measures(view: View, text: str | None) -> tuple[str, ...]:
    """Names of measures by comma, in their order in the view; all without a text. Raises BadSelection."""
    if text is None:
        return tuple(view.measures)
    named = text.split(",")
    for name in named:
        if name not in view.measures:
            raise BadSelection(f"view {view.name!r} has no measure {name!r}; measures: {listed(name, view.measures)}")
    return tuple(name for name in view.measures if name in named)


def columns(view: View, measures: Iterable[str]) -> list[str]:
    """The columns of an answer with these measures only."""
    left_out = set(view.measures) - set(measures)
    return [name for name in answer_schema(view).names if name not in left_out]
