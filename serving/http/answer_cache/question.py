"""A question to a view, and the digest by which equal questions are found."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec
import pyarrow as pa

from tandem.serving.http.answer_cache.chunks import Order
from tandem.serving.read.provenance import Layer
from tandem.serving.read.selection import ALWAYS, Selection, select
from tandem.views.view import View


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
        """The same question about all rows of the view, at the same time."""
        return replace(self, selection=select(self.view, {}, ALWAYS, at=self.selection.at), order=())

    @property
    def digest(self) -> str:
        """A text that equal questions share and different ones do not."""
        asked = self.selection
        keys = {name: value.as_py() for name, value in asked.keys.items()}
        return digest_of(
            self.view.name,
            keys,
            (asked.start, asked.end) if asked.at is None else (asked.start, asked.end, asked.at),
            layer=self.layer,
            publication=self.publication,
            order=self.order,
        )


def digest_of(
    view: str,
    keys: Mapping[str, Any],
    between: tuple[datetime | None, ...],
    *,
    layer: Layer = "merged",
    publication: int | None = None,
    order: Order = (),
) -> str:
    """The digest of the question that has these parts; the values of keys are as Arrow returns them in Python."""
    named = {name: [value is not None, str(value)] for name, value in sorted(keys.items())}
    bounds = [None if bound is None else bound.isoformat() for bound in between]
    return sha256(msgspec.json.encode([view, named, bounds, layer, publication, order])).hexdigest()[:24]


def outside(keys: Mapping[str, pa.Scalar], bound: Mapping[str, pa.Scalar]) -> bool:
    """Whether no row with these keys is visible to a principal that is bound to values of keys."""
    return any(name in keys and not keys[name].equals(value) for name, value in bound.items())
