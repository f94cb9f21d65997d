"""A question to one view, as a value: two requests that ask the same have equal ones."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

import pyarrow as pa

from serving.provenance import Layer
from serving.selection import ALWAYS, BadSelection, Between
from views.errors import listed
from views.view import View, answer_schema


@dataclass(frozen=True)
class Question:
    """Rows of a view that have the given `keys` and whose window starts `between` two times, in an `order`.

    `order` has columns with whether they ascend; after them the rows are by window and keys. `never` asks for no row at all: the
    keys that were named are not among those that may be seen.
    """

    view: View
    keys: Mapping[str, pa.Scalar]
    between: Between = ALWAYS
    layer: Layer = "merged"
    publication: int | None = None
    order: tuple[tuple[str, bool], ...] = ()
    never: bool = False

    @property
    def whole(self) -> "Question":
        """The same of all rows of the view."""
        return replace(self, keys={}, between=ALWAYS, order=(), never=False)

    @property
    def digest(self) -> str:
        """The same text for the same question, another one for another."""
        keys = {name: [value.is_valid, str(value.as_py())] for name, value in sorted(self.keys.items())}
        between = [None if bound is None else bound.isoformat() for bound in self.between]
        parts = [self.view.name, keys, between, self.layer, self.publication, self.order, self.never]
        return sha256(json.dumps(parts).encode()).hexdigest()[:24]


def restricted(keys: Mapping[str, pa.Scalar], bound: Mapping[str, pa.Scalar]) -> tuple[dict[str, pa.Scalar], bool]:
    """The keys with those that a principal is bound to, and whether no row can have both."""
    never = any(name in keys and not keys[name].equals(value) for name, value in bound.items())
    return {**keys, **bound}, never


def parse_order(view: View, text: str) -> tuple[tuple[str, bool], ...]:
    """Columns of the answer by comma, each with a minus if it descends. Raises BadSelection."""
    schema, found = answer_schema(view), []
    for part in text.split(","):
        name = part.removeprefix("-")
        if name not in schema.names:
            raise BadSelection(f"view {view.name!r} has no column {name!r} to order by; columns: {listed(name, schema.names)}")
        if pa.types.is_nested(schema.field(name).type):
            raise BadSelection(f"rows cannot be ordered by {name!r}: it has several values in each")
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
