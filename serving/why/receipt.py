"""A receipt of an answer: what was asked, at which positions, by which code, and a digest of the rows.

The canonical form of the rows is digested by SHA-256. It has a line for each row, in the order of any answer, and a newline after
each: a JSON object in UTF-8 with sorted names and without spaces. Keys, window and the measures in `digested` are in it as
`tandem query --json` has them. Labels are not: they change with the watermark. Neither are measures that are not exact, because
another order of additions or merges may give them other digits.

The canonical form of a receipt is one such line, in ASCII.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from importlib.metadata import version
from typing import Any, Final, Self, TypedDict

import msgspec
import pyarrow as pa

from tandem.infra.folders import tandem_version
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.ledger.publish.publications import Publications
from tandem.serving.read.outcome import Absent, Value
from tandem.serving.read.provenance import Layer, Provenance
from tandem.serving.read.selection import Selection
from tandem.views import exactness
from tandem.views.composite.rollup import root
from tandem.views.composite.table import looked_up
from tandem.views.errors import TandemError
from tandem.views.fingerprint.hashed_parts import DECODE_VERSION, DERIVED_VERSION, KERNEL_VERSION
from tandem.views.instant import utc_text
from tandem.views.kernel.rows import to_rows, writer
from tandem.views.view import View, state_schema
from tandem.views.windows.placement import WINDOW_STATE

FORMAT: Final = 1
"""The version of receipts, in their field `receipt`."""

LIBRARIES: Final = ("duckdb", "pyarrow", "datasketches")
"""The packages beside Tandem whose code makes numbers."""


AskedQuestion = TypedDict(
    "AskedQuestion", {"keys": dict[str, Any], "from": str | None, "to": str | None, "one": bool, "at": str | None}
)
"""The selection of a question."""


class SourcePositions(TypedDict):
    """The cut of a source, and the position up to which an answer counts it."""

    cut: dict[str, dict[str, int]]
    position: dict[str, dict[str, int]]


class InvalidReceipt(TandemError, code="receipt-invalid"):
    """A file is not a receipt, or an answer cannot have one."""


@dataclass(frozen=True)
class Receipt:
    """What an answer was; every field has JSON types.

    Args:
        receipt: FORMAT.
        asked: `keys`, `from`, `to`, `one` and `at` of the question.
        fingerprint: of the view's meaning, under which its states are.
        positions: by source, up to where the answer counts, and the cut: those of tables in which the view looks up, too.
        kept_from: the start of the first window that had stayed, of a view that keeps some.
        erased: by source, how many records below the position were erased.
        versions: of kernel, decoders, derived measures and libraries.
        digested: the measures in the digest.
    """

    receipt: int
    view: str
    asked: AskedQuestion = field(hash=False)
    layer: Layer
    publication: int
    release: int
    fingerprint: str
    positions: Mapping[str, SourcePositions] = field(hash=False)
    kept_from: str | None
    erased: Mapping[str, int] = field(hash=False)
    versions: Mapping[str, Any] = field(hash=False)
    digested: tuple[str, ...]
    rows: int
    digest: str

    def line(self) -> bytes:
        """The canonical form."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def parse(cls, content: bytes, place: str) -> Self:
        """Inverse of `line`; spaces and the order of names do not matter. Raises InvalidReceipt naming the place."""
        try:
            document = msgspec.json.decode(content, type=dict[str, Any])
            receipt = msgspec.convert(document, cls)
            for source in (*receipt.positions, *receipt.erased):
                for at_the_cut in (True, False):
                    receipt.end(source, at_the_cut=at_the_cut)
        except (ValueError, msgspec.MsgspecError, TandemError) as error:
            raise InvalidReceipt(f"{place} is not a receipt, as `tandem query --receipt` writes it: {error}") from error
        if receipt.receipt != FORMAT:
            raise InvalidReceipt(
                f"{place} is a receipt of format {receipt.receipt}; this version of Tandem reads format {FORMAT}"
            )
        return receipt

    def end(self, source: str, *, at_the_cut: bool = False) -> Position:
        """A position of a source. Raises InvalidReceipt if there is none."""
        if source not in self.positions:
            raise InvalidReceipt(f"the receipt has no positions of source {source!r}")
        return Position.from_json(self.positions[source]["cut" if at_the_cut else "position"])

    def of(self, view: View, rows: pa.Table) -> Self:
        """The same receipt of these rows."""
        return replace(self, rows=rows.num_rows, digest=digest_of(view, rows, self.digested))


def versions() -> dict[str, Any]:
    """The versions of what makes numbers, as it runs now."""
    code = {"kernel": KERNEL_VERSION, "decode": DECODE_VERSION, "derived": DERIVED_VERSION}
    return code | {"tandem": tandem_version()} | {name: version(name) for name in LIBRARIES}


def receipt_of(tables: Tables, answer: Value | Absent, selection: Selection) -> Receipt:
    """The receipt of all rows of an answer.

    Raises InvalidReceipt for an answer of the layer speed, or of a release that is not live, which nobody can compute again, and
    for some of its rows. Raises Unreadable.
    """
    view, whence = answer.view, answer.provenance
    if whence.layer == "speed" or not whence.live:
        raise InvalidReceipt("a receipt is of the layers merged or batch of the live release")
    if answer.table.num_rows < answer.total:
        raise InvalidReceipt("a receipt is of all rows of an answer; leave out the limit")
    digested = exact_measures(view)
    erasures, positions = Erasures(tables), dict(_positions(tables, view, whence))
    return Receipt(
        FORMAT,
        view.name,
        _question(view, selection),
        whence.layer,
        whence.publication,
        whence.release,
        whence.fingerprint,
        {name: {"cut": cut.to_json(), "position": end.to_json()} for name, (cut, end) in positions.items()},
        None if whence.kept_from is None else utc_text(whence.kept_from),
        {name: erasures.count_within(name, ranges(LOG_START, end)) for name, (_, end) in positions.items()},
        versions(),
        digested,
        answer.total,
        digest_of(view, answer.table, digested),
    )


def _positions(tables: Tables, view: View, whence: Provenance) -> Iterator[tuple[str, tuple[Position, Position]]]:
    """By source of the view, and of the tables in which it looks up, the cut and the position of an answer."""
    first = root(view)
    if whence.sources:
        yield from ((name, (each.cut, each.realtime)) for name, each in whence.sources.items())
    else:
        yield first.source.name, (whence.cut, whence.realtime)
    publications = {each.number: each for each in Publications(tables).history()} if looked_up(first) else {}
    for table in looked_up(first).values():
        name = table.source.name
        cut = publications[whence.publication].cut(name)
        yield name, (cut, cut if whence.layer == "batch" else whence.tables[name].position)


def exact_measures(view: View) -> tuple[str, ...]:
    """The measures of which every computation gives the same value."""
    inexact = exactness.of_measures(view)
    return tuple(name for name in view.measures if name not in inexact)


def digest_of(view: View, rows: pa.Table, measures: tuple[str, ...]) -> str:
    """The digest of rows in their canonical form."""
    left_out = {WINDOW_STATE.name, *(name for name in view.measures if name not in measures)}
    whole = sha256()
    for row in to_rows(view, rows):
        kept = {name: value for name, value in row.items() if name not in left_out}
        whole.update(json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
    return f"sha256:{whole.hexdigest()}"


def _question(view: View, selection: Selection) -> AskedQuestion:
    schema = state_schema(view)
    keys = {name: writer(schema.field(name))(value.as_py()) for name, value in selection.keys.items()}
    return {
        "keys": keys,
        "from": _time(selection.start),
        "to": _time(selection.end),
        "one": selection.one,
        "at": _time(selection.at),
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else utc_text(at)
