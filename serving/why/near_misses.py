"""Records in quarantine that may have been meant for a row: nothing says so but the bytes, in which the key's values occur."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.files.file_ranges import RECORDS, log_table
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice
from tandem.serving.why.part_log import AskedRow
from tandem.serving.why.row_groups import within
from tandem.views.arrow import arrays
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import REJECTED_INDEX, REJECTS_SCHEMA, Source

LISTED: Final = 20
"""The most near misses that are listed; all are counted."""

_PIECE_ROWS: Final = 1 << 16
_COLUMNS: Final = REJECTS_SCHEMA.names


@dataclass(frozen=True)
class NearMiss:
    """A rejected record whose first bytes have the values of the row's keys."""

    at: tuple[str, int, int, int]
    reason: str
    detail: str


@dataclass(frozen=True)
class NearMisses:
    """The `rejects` of a source since the window began, the number that has the key's values, and the first of these."""

    rejects: int = 0
    number: int = 0
    first: tuple[NearMiss, ...] = ()


def near_misses(tables: Tables, source: Source, covered: Ranges, asked: AskedRow, tail: pa.Table) -> NearMisses:
    """Those below the position of an answer: of the quarantine, and of the `tail` that only the topic has. Raises Unreadable."""
    words = [_forms(value) for value in asked.values if value is not None]
    rejects, number, listed = 0, 0, list[NearMiss]()
    for some in (*_quarantine(tables, source, covered), tail):
        since = some.filter(arrays.booleans(within(some["timestamp"], (asked.span[0], None))))
        rejects += since.num_rows
        for row in since.take(arrays.from_numpy(_mentions(since, words), pa.int64())).to_pylist() if since.num_rows else ():
            number += 1
            if len(listed) < LISTED:
                at = (row["topic_id"], row["partition"], row["offset"], row.get(REJECTED_INDEX.name) or 0)
                listed.append(NearMiss(at, row["reason"], row["detail"]))
    return NearMisses(rejects, number, tuple(listed))


def _quarantine(tables: Tables, source: Source, covered: Ranges) -> Iterator[pa.Table]:
    table = log_table(tables, tables.quarantine(source.name, decoder_fingerprint(source)), RECORDS)
    part = Slice(covered, tuple(file.path for file in table.files), 0)
    yield from scan(table.place, part, RECORDS, _COLUMNS, rows=_PIECE_ROWS, verified=True) if table.files else ()


def _mentions(rejects: pa.Table, words: Sequence[Collection[bytes]]) -> Any:
    """The numbers of the rejects whose first bytes have a form of each word, in any case of letters."""
    values = [_lower(value or b"") for value in rejects["first_bytes"].to_pylist()]
    mentions = (all(any(form in value for form in forms) for forms in words) for value in values)
    return np.array([number for number, mention in enumerate(mentions) if mention], np.int64)


def _forms(value: Any) -> Collection[bytes]:
    """A value of a key as it may be in a record: as it is, and escaped in two ways as JSON's strings are."""
    if isinstance(value, bytes):
        return [_lower(value)]
    texts = {write(str(value)) for write in (str, str.lower, str.upper)}
    escaped = (json.dumps(text, ensure_ascii=only_ascii)[1:-1] for text in texts for only_ascii in (False, True))
    return {_lower(form.encode("utf-8", "surrogatepass")) for form in (*texts, *escaped)}


def _lower(value: bytes) -> bytes:
    """Bytes with small letters where they are UTF-8."""
    return value.decode("utf-8", "surrogateescape").lower().encode("utf-8", "surrogateescape")
