"""The parts of a batch view: a base and later parts, each a batch version in the view's table."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delta_tables import damaged, open_table
from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.log.positions import Position

if TYPE_CHECKING:
    import pyarrow.compute as pc

_PAIRED_MOST: Final = 2**52

Windows = tuple[datetime, datetime]
"""Half-open bounds of window starts."""

_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class BatchPart:
    """One batch version of a view: `rows` states of the log from the end of the part before up to `end`.

    A part with `windows` adds no range of the log. It replaces the states of earlier parts whose windows start in these bounds.
    Without rows and `gone`, these windows have left the view, and no later event brings them back: those that start before the
    bounds are in no earlier part any more. What a reader makes of several batch views has the `view` of each part, and
    its `table` as `at` has it.
    """

    version: int
    rows: int
    end: Position
    windows: Windows | None = None
    gone: bool = False
    view: str = ""
    table: str = ""

    def to_json(self) -> dict[str, Any]:
        """A JSON object of the fields."""
        windows = None if self.windows is None else [bound.isoformat() for bound in self.windows]
        gone = {"gone": True} if self.gone else {}
        return {"version": self.version, "rows": self.rows, "end": self.end.to_json(), "windows": windows, **gone}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "BatchPart":
        """Inverse of `to_json`."""
        start, end = map(datetime.fromisoformat, document["windows"]) if document["windows"] else (None, None)
        windows = None if start is None or end is None else (start, end)
        return cls(
            document["version"], document["rows"], Position.from_json(document["end"]), windows, document.get("gone", False)
        )


@dataclass(frozen=True)
class BatchView:
    """The live parts of `views/<view>/<fingerprint>`: a base and later parts, which readers merge.

    A renamed view keeps its table: `at` is then the `<view>/<fingerprint>` under which the table was created, else empty. What a
    reader makes of a batch view for a rollup has the rollup's fingerprint, and `root` is that of the view whose states it unites.
    What it makes for a view over several sources has the parts of all, and the `versions` of each.
    """

    fingerprint: str
    parts: tuple[BatchPart, ...] = ()
    at: str = ""
    root: str = ""
    versions: tuple[int, ...] = ()

    @property
    def states(self) -> str:
        """The fingerprint under which commits have the states."""
        return self.root or self.fingerprint

    def table(self, view: str) -> str:
        """The `<view>/<fingerprint>` of the table; `view` is the view's name now."""
        return self.at or f"{view}/{self.fingerprint}"

    def address(self, tables: Tables, view: str, part: BatchPart | None = None) -> str:
        """The address of the table, or of that of a part; `view` is the view's name now."""
        name, _, fingerprint = ((part is not None and part.table) or self.table(view)).partition("/")
        return tables.view(name, fingerprint)

    def later(self, part: BatchPart) -> tuple[BatchPart, ...]:
        """The parts after a part in its table, which may replace states of it."""
        return tuple(each for each in self.parts[self.parts.index(part) + 1 :] if each.table == part.table)

    @property
    def version(self) -> int:
        """The newest part's batch version; 0 for the empty batch. Of several a number that differs if one of them does."""
        if self.versions:
            return pair_numbers(self.versions)
        return self.parts[-1].version if self.parts else 0

    @property
    def log_parts(self) -> tuple[BatchPart, ...]:
        """The parts without the last one if it says which windows have left."""
        return self.parts[:-1] if self.parts and self.parts[-1].gone else self.parts

    @property
    def gone(self) -> Windows | None:
        """The bounds of windows that have left and that some part may still have; those that start earlier are in no part."""
        return self.parts[-1].windows if self.parts and self.parts[-1].gone else None

    @property
    def first_window(self) -> datetime | None:
        """The start of the first window that stays; None if all do."""
        return None if self.gone is None else self.gone[1]

    def with_gone(self, kept_from: datetime | None, before: "BatchView") -> "BatchView":
        """The view, in which windows that start earlier have left, after a view that may have lost some already."""
        if kept_from is None and before.gone is None:
            return self
        ends = [end for end in (kept_from, before.first_window) if end is not None]
        last = self.parts[-1]
        # A rebuilt base has no windows that had left before.
        first = before.first_window if len(self.parts) == 1 and last.windows is None else before.gone and before.gone[0]
        gone = BatchPart(last.version, 0, last.end, (first or _FIRST, max(ends)), gone=True)
        return replace(self, parts=(*self.parts, gone))

    @property
    def rows(self) -> int:
        """The rows of all parts."""
        return sum(part.rows for part in self.parts)

    def to_json(self) -> dict[str, Any]:
        """A JSON object of the fields."""
        at = {"at": self.at} if self.at else {}
        return {"fingerprint": self.fingerprint, "parts": [part.to_json() for part in self.parts], **at}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "BatchView":
        """Inverse of `to_json`."""
        return cls(document["fingerprint"], tuple(map(BatchPart.from_json, document["parts"])), document.get("at", ""))


def pair_numbers(numbers: Sequence[int]) -> int:
    """One number for several that are not negative, another one for any others: Cantor's pairing, from the left.

    It is below 2**53, so JavaScript has all of its digits: in place of a pairing from 2**52 on there is one of its SHA-256, which
    two pairings share with a probability of 2**-52.
    """
    first, *others = numbers
    for number in others:
        first = (first + number) * (first + number + 1) // 2 + number
    if first < _PAIRED_MOST:
        return first
    return _PAIRED_MOST + int.from_bytes(hashlib.sha256(str(first).encode()).digest()) % _PAIRED_MOST


@dataclass(frozen=True)
class PartFile:
    """One file of a part: its path in the view's table, its number of states, its size in bytes."""

    path: str
    rows: int
    size: int


def files_of(tables: Tables, address: str, part: BatchPart) -> tuple[DeltaTable, list[PartFile]]:
    """The view's table and the files of a part. Raises Unreadable if they do not hold the part's rows."""
    handle = open_table(tables, address)
    if handle is None:
        raise Unreadable(f"table {address} of batch version {part.version} does not exist")
    files = [file for version, file in _files(handle) if version == part.version and not part.gone]
    if (found := sum(file.rows for file in files)) != part.rows:
        raise Unreadable(f"table {address} has {found} of the {part.rows} rows of batch version {part.version}; restore it")
    return handle, files


def files_with_later(
    tables: Tables, address: str, parts: Sequence[BatchPart]
) -> Iterator[tuple[PartFile, tuple[BatchPart, ...]]]:
    """The files of parts, each with the later parts, which may replace states of it. Raises Unreadable."""
    for number, part in enumerate(parts):
        yield from ((file, tuple(parts[number + 1 :])) for file in files_of(tables, address, part)[1])


def damage(tables: Tables, address: str, part: BatchPart) -> Iterator[str]:
    """Why a part cannot be read, a sentence for each file; nothing if all files can be opened."""
    try:
        handle, files = files_of(tables, address, part)
    except Unreadable as error:
        yield str(error)
        return
    for path in damaged(handle, {file.path: file.size for file in files}):
        yield f"file {path} of batch version {part.version} in table {address} is missing or torn"


def versions(tables: Tables, address: str) -> dict[int, int]:
    """The number of rows of each batch version in the view's table; empty if there is no table. Raises Unreadable."""
    handle = open_table(tables, address)
    found: dict[int, int] = {}
    for version, file in _files(handle) if handle else ():
        found[version] = found.get(version, 0) + file.rows
    return found


def paths(handle: DeltaTable) -> dict[str, int]:
    """The batch version of every file of a view's table, by path."""
    return {file.path: version for version, file in _files(handle)}


def _files(handle: DeltaTable) -> Iterator[tuple[int, PartFile]]:
    """Every file of a view's table, with its batch version."""
    actions = pa.table(handle.get_add_actions(flatten=True))
    version = actions["partition.batch_version"].cast(pa.int64()).to_pylist()
    columns = (actions[name].to_pylist() for name in ("path", "num_records", "size_bytes"))
    return zip(version, (PartFile(*row) for row in zip(*columns, strict=True)), strict=True)


def still_live(states: pa.Table, later: Sequence[BatchPart]) -> pa.Table:
    """The states of a part that no later part replaces."""
    for start, end in (part.windows for part in later if part.windows):
        states = states.filter(~_starting_within(start, end))
    return states


def starting_within(states: pa.Table, windows: Windows) -> pa.Table:
    """The states whose windows start within the bounds."""
    return states.filter(_starting_within(*windows))


def _starting_within(start: datetime, end: datetime) -> "pc.Expression":
    # Commands that only read publications start without these packages.
    import pyarrow.compute as pc  # noqa: PLC0415

    from tandem.views.source.event import TIMESTAMP  # noqa: PLC0415
    from tandem.views.windows import WINDOW_COLUMNS  # noqa: PLC0415

    column = pc.field(WINDOW_COLUMNS[0])
    return (column >= pa.scalar(start, TIMESTAMP)) & (column < pa.scalar(end, TIMESTAMP))


def staying(states: pa.Table, kept_from: datetime | None) -> pa.Table:
    """The states whose windows have not left."""
    return states if kept_from is None else states.filter(~_starting_within(_FIRST, kept_from))
