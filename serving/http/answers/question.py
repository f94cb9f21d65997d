"""A question to one view, as a value: two requests that ask the same have equal questions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

import msgspec
import pyarrow as pa

from serving.read.provenance import Layer
from serving.read.selection import ALWAYS, Selection, select
from views.view import View

Order = tuple[tuple[str, bool], ...]
"""Columns of an answer, each with whether it ascends."""


@dataclass(frozen=True)
class Question:
    """The rows of a view that a `selection` takes, from a `layer` of a `publication`, the live one if that is None.

    Rows are sorted by `order`, ties by window start, then keys.
    """

    view: View
    selection: Selection
    layer: Layer = "merged"
    publication: int | None = None
    order: Order = ()

    @property
    def whole(self) -> "Question":
        """The same question about all rows of the view."""
        return replace(self, selection=select(self.view, {}, ALWAYS), order=())

    @property
    def digest(self) -> str:
        """A text that equal questions share and different ones do not."""
        asked = self.selection
        keys = {name: [value.is_valid, str(value.as_py())] for name, value in sorted(asked.keys.items())}
        between = [None if bound is None else bound.isoformat() for bound in (asked.start, asked.end)]
        parts = [self.view.name, keys, between, self.layer, self.publication, self.order]
        return sha256(msgspec.json.encode(parts)).hexdigest()[:24]


def outside(keys: Mapping[str, pa.Scalar], bound: Mapping[str, pa.Scalar]) -> bool:
    """Whether no row with these keys is visible to a principal that is bound to values of keys."""
    return any(name in keys and not keys[name].equals(value) for name, value in bound.items())
