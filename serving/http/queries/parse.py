"""Parsing a request's parameters into a question, and the cursor of a page."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import Meta

from tandem.ledger.log.positions import Position
from tandem.serving.access.rights import Principal
from tandem.serving.access.sealed_text import Seal
from tandem.serving.http.answer_cache.cache import CachedAnswer
from tandem.serving.http.answer_cache.chunks import Order
from tandem.serving.http.answer_cache.question import Question, digest_of, outside
from tandem.serving.http.answer_cache.rebuilt_snapshot import SnapshotBasis
from tandem.serving.http.models.rows import LookupDocument
from tandem.serving.http.protocol.parameters import LONGEST, RowParameters, RowsParameters
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.read.provenance import Layer
from tandem.serving.read.selection import (
    BadSelection,
    Between,
    measures_of,
    parse_between,
    parse_keys,
    parse_time,
    parse_window,
    select,
)
from tandem.serving.read.window_zone import clocks, zone_name
from tandem.views.errors import TandemError, listed
from tandem.views.view import View, answer_schema, state_schema


def question_of(
    view: View, principal: Principal, parameters: RowsParameters | RowParameters, publication: int | None
) -> Question:
    """The question that a request asks about a view that the principal may read. Raises as `row_question`."""
    layer = parameters.layer or ("merged" if publication is None else "batch")
    at = None if parameters.at is None else parse_time(parameters.at)
    if isinstance(parameters, RowParameters):
        return row_question(view, principal, parameters.keys, parameters.window, at=at, layer=layer, publication=publication)
    keys, between = parse_keys(view, parameters.keys), _between(view, parameters.start, parameters.to)
    selection = select(view, restricted(view, principal, keys), between, at=at)
    return Question(view, selection, layer, publication, parse_order(view, parameters.order))


def row_question(
    view: View,
    principal: Principal,
    keys: Sequence[str],
    window: str | None,
    *,
    at: datetime | None = None,
    layer: Layer = "merged",
    publication: int | None = None,
) -> Question:
    """The question about one row: `keys` name all keys of the view, `window` is the start of the row's window.

    Raises BadSelection, and Problem 403 for keys that the principal may not see: an empty answer would claim that nothing was
    counted, so those keys are refused whether anything was counted or not.
    """
    named = parse_keys(view, keys)
    values = restricted(view, principal, named)
    if missing := [name for name in view.keys if name not in named]:
        raise BadSelection(f"one row of view {view.name!r} needs all of its keys; missing: {', '.join(missing)}")
    return Question(view, select(view, values, parse_window(view, window), at=at), layer, publication)


class OneRow(NamedTuple):
    """One row of the live publication: its key, the start of its window, and the digest of the question about it."""

    key: tuple[Any, ...]
    start: datetime | None
    digest: str


def one_row(view: View, principal: Principal, keys: Sequence[str], window: str | None) -> OneRow:
    """The row that `row_question` asks for. Raises as that does.

    Most keys are texts. A scalar of Arrow's for each would take as long as finding the row.
    """
    texts = None if principal.rights.rows else _texts(view, keys)
    if texts is None:
        question = row_question(view, principal, keys, window)
        selection = question.selection
        return OneRow(tuple(selection.keys[name].as_py() for name in view.keys), selection.start, question.digest)
    between = parse_window(view, window)
    return OneRow(tuple(texts[name] for name in view.keys), between[0], digest_of(view.name, texts, between))


def _texts(view: View, keys: Sequence[str]) -> dict[str, str] | None:
    """The values of all keys of a view; None if not all are texts, or not each of them is given once."""
    if len(keys) != len(view.keys) or not _of_texts(view):
        return None
    texts = {name: value for name, given, value in (key.partition("=") for key in keys) if given}
    return texts if texts.keys() == view.keys.keys() else None


@lru_cache(maxsize=1024)
def _of_texts(view: View) -> bool:
    """Whether all keys of a view are texts."""
    return all(state_schema(view).field(name).type == pa.string() for name in view.keys)


def lookup_question(view: View, principal: Principal, body: LookupDocument) -> Question:
    """The question about the rows of many keys, without the keys themselves. Raises BadSelection."""
    at = None if body.at is None else parse_time(body.at)
    selection = select(view, restricted(view, principal, {}), _between(view, body.start, body.to), at=at)
    return Question(view, selection, body.layer or "merged")


def _between(view: View, start: str | None, end: str | None) -> Between:
    """The bounds of window starts; times without a zone are in the view's."""
    return parse_between(start, end, clocks(zone_name(view)))


def parse_order(view: View, text: str | None) -> Order:
    """The columns to sort by, separated by commas, each with a minus if it descends. Raises BadSelection."""
    schema, found = answer_schema(view), []
    for part in [] if text is None else text.split(","):
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
    """Names of measures, separated by commas, in the view's order; all of them without a text. Raises BadSelection."""
    return tuple(view.measures) if text is None else measures_of(view, text.split(","))


def columns(view: View, measures: Iterable[str]) -> list[str]:
    """The columns of an answer that has only these measures."""
    left_out = set(view.measures) - set(measures)
    return [name for name in answer_schema(view).names if name not in left_out]


def restricted(view: View, principal: Principal, named: Mapping[str, pa.Scalar]) -> dict[str, pa.Scalar]:
    """The named values of keys and those that the principal is bound to. Raises Problem 403 if they differ."""
    bound = principal.rights.bound(view) or {}
    if outside(named, bound):
        raise Problem(403, f"the token is restricted to rows with {', '.join(principal.rights.rows)}")
    return {**named, **bound}


class Cursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """`stand` names the snapshot and `digest` the question; the page begins after `given` rows.

    `dice` names the computation of estimates. From `publication` and `ends`, the positions by source, any server of the project
    builds the snapshot.
    """

    stand: Annotated[str, Meta(max_length=64)]
    digest: Annotated[str, Meta(max_length=64)]
    given: Annotated[int, Meta(ge=0, lt=2**53)]
    dice: Annotated[str, Meta(max_length=64)] = ""
    publication: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    ends: dict[str, dict[str, dict[str, int]]] = {}  # msgspec copies it

    @classmethod
    def after(cls, answer: CachedAnswer, rows: int) -> "Cursor":
        """The cursor of the page after this many rows of an answer."""
        number, ends = (0, {}) if answer.basis is None else answer.basis.to_json()
        return cls(answer.stand, answer.digest, rows, answer.dice, number, ends)

    @property
    def basis(self) -> SnapshotBasis | None:
        """From what the snapshot is built. Raises TandemError."""
        ends = {source: Position.from_json(end) for source, end in self.ends.items()}
        return SnapshotBasis(self.publication, ends) if self.publication else None


def cursor_text(cursor: Cursor, seal: Seal | None) -> str:
    """The cursor as a parameter of a URL, sealed for a caller that may not see positions.

    A text that is too long for a parameter leaves the positions out: then only the server that sent it can go on.
    """
    content = msgspec.json.encode(cursor)
    text = seal.close(content.decode()) if seal else urlsafe_b64encode(content).decode().rstrip("=")
    return text if len(text) <= LONGEST else cursor_text(msgspec.structs.replace(cursor, publication=0, ends={}), seal)


def parse_cursor(text: str, seal: Seal | None) -> tuple[Cursor, SnapshotBasis | None]:
    """Inverse of `cursor_text`, with the basis of the cursor. Raises BadSelection."""
    try:
        content = (seal.open(text) or "") if seal else urlsafe_b64decode(text[:LONGEST] + "=" * (-len(text) % 4))
        cursor = msgspec.json.decode(content, type=Cursor)
        basis = cursor.basis
    except (ValueError, msgspec.MsgspecError, TandemError):
        raise BadSelection("invalid cursor; use `next` from the previous page") from None
    return cursor, basis
