"""Find the records to erase: those with an event for which a condition holds, or with one of the given identities."""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tandem.batch.erase.searched_texts import SearchedTexts, texts_of
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.files.file_ranges import EVENTS, EVERY_OFFSET, PositionColumns, log_table
from tandem.ledger.files.rows_at import may_hold, rows_at
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START, ranges
from tandem.views.counted import counted
from tandem.views.errors import DefinitionError, TandemError
from tandem.views.source.offset_ranges import Partition, Ranges
from tandem.views.source.source import Source, events_schema
from tandem.views.sql.engine import query, quoted
from tandem.views.sql.expressions import bind_expression
from tandem.views.sql.syntax import enclosed

_SCAN_ROWS: Final = 1 << 18
_ROWS: Final = "erasable_events"
_IDS: Final = "erasable_ids"
_PLACE: Final = re.compile(r"(?P<topic>[^/\s]+)/(?P<partition>\d{1,9}):(?P<offset>\d{1,18})", re.ASCII)


class NotForgotten(TandemError, code="forget-impossible"):
    """The requested erasure is not possible; nothing was changed."""


@dataclass(frozen=True)
class RecordSelection:
    """Which events to erase: those for which `condition` holds (SQL over the source's events), or of one of the `ids`.

    `places` are positions, by line, of records that are erased whatever they decode to. A line with `/` and `:` may be both an
    identity and a position. `texts` are those of the condition.
    """

    condition: str
    fields: tuple[str, ...]
    ids: tuple[str, ...] = ()
    places: Mapping[str, tuple[Partition, int]] = field(default_factory=dict, hash=False)
    texts: SearchedTexts = field(default_factory=SearchedTexts)

    def search_texts(self, topics: Container[str]) -> SearchedTexts:
        """The texts with which `--prove` searches: a line that names an archived topic is a position, which no file has."""
        ids = (line for line in self.ids if line not in self.places or self.places[line][0][0] not in topics)
        return replace(self.texts, searched=(*self.texts.searched, *ids))


@dataclass(frozen=True)
class FoundRecords:
    """The positions of the records to erase, how many of their events were selected, and how many `others` go with them."""

    ranges: Ranges
    events: int
    others: int


def where(source: Source, text: str) -> RecordSelection:
    """The events for which an expression over the source's fields holds. Raises NotForgotten."""
    fields = events_schema(source)
    try:
        bound = bind_expression(text, fields, source.event.__name__)
    except DefinitionError as error:
        raise NotForgotten(f"--where: {text!r} {error}") from error
    if bound.type.kind != "boolean":
        raise NotForgotten(f"--where: {text!r} is of type {bound.type.sql}; a condition is BOOLEAN, such as \"reader = 'r17'\"")
    return RecordSelection(enclosed(text), tuple(sorted(bound.fields)), texts=texts_of(text, fields))


def of_ids(source: Source, lines: Sequence[str]) -> RecordSelection:
    """The events whose identity a line is, and the records whose TOPIC_ID/PARTITION:OFFSET a line is.

    Raises NotForgotten without a line, and for an identity if the source's identity is not a single field of text or an integer.
    """
    if not lines:
        raise NotForgotten("--ids names a file without a line; a line is an identity, or TOPIC_ID/PARTITION:OFFSET")
    matches = {line: match for line in lines if (match := _PLACE.fullmatch(line)) is not None}
    places = {line: ((match["topic"], int(match["partition"])), int(match["offset"])) for line, match in matches.items()}
    fields = events_schema(source)
    kinds = [fields.field(name).type for name in source.identity if name in fields.names]
    plain = len(source.identity) == 1 and [kind for kind in kinds if pa.types.is_string(kind) or pa.types.is_integer(kind)]
    if not plain:
        if len(places) < len(set(lines)):
            raise NotForgotten(
                f"--ids: the identity of source {source.name!r} is not one field of text or an integer, so a line can only "
                "be TOPIC_ID/PARTITION:OFFSET; select other records with --where"
            )
        return RecordSelection("false", (), (), places)
    # A number is never written like a position.
    ids = tuple(line for line in lines if line not in places or pa.types.is_string(plain[0]))
    return RecordSelection(f"{_id_of(source.identity[0])} IN (SELECT id FROM {_IDS})", source.identity, ids, places)


def find_records(tables: Tables, source: Source, decoder: str, selection: RecordSelection) -> FoundRecords:
    """Search the archived events below the archive's end, in bounded pieces.

    Raises NotForgotten for a line that is neither the position of an archived record nor the identity of an event, or both.
    """
    ledger = ArchiveLedger(tables, source.name)
    covered = ranges(LOG_START, ledger.end(decoder), ledger.firsts())
    there = log_table(tables, tables.events(source.name, decoder), EVENTS)
    part = Slice(covered, tuple(file.path for file in there.files), 0)
    names = ", ".join(map(quoted, EVENTS.names))
    ids = {_IDS: pa.table({"id": pa.array(selection.ids, pa.string())})}
    either = [line for line in selection.ids if line in selection.places]
    identities: set[str] = set()
    by_partition: dict[Partition, list[Any]] = {}
    selected = 0
    columns = list(dict.fromkeys((*EVENTS.names, *selection.fields)))
    for rows in scan(there.place, part, EVENTS, columns, rows=_SCAN_ROWS):
        matching = query(f"SELECT {names} FROM {_ROWS} WHERE {selection.condition}", {_ROWS: rows, **ids})
        selected += matching.num_rows
        _collect(by_partition, matching, EVENTS)
        if either and matching.num_rows:
            values = query(
                f"SELECT {_id_of(source.identity[0])} id FROM {_ROWS} WHERE {selection.condition}", {_ROWS: rows, **ids}
            )
            identities.update(values["id"].to_pylist())
    matched = _coalesce(by_partition)
    places = _positions(source, selection, covered, identities)
    whole = matched.union(places.without(matched))
    return FoundRecords(whole, selected, events_at(tables, source.name, decoder, whole) - selected)


def _positions(source: Source, selection: RecordSelection, covered: Ranges, identities: Container[str]) -> Ranges:
    """The positions that lines name. Raises NotForgotten for a line that is neither a position nor an identity, or both."""
    inside = dict(covered.intervals)
    archived = {
        line: place
        for line, place in selection.places.items()
        if any(start <= place[1] < end for start, end in inside.get(place[0], ()))
    }
    if both := sum(line in identities for line in archived):
        raise NotForgotten(
            f"--ids: {counted(both, 'line')} of the file can be the position of a record or the identity of an event; erase the "
            f"events first, with --where \"{source.identity[0]} = '...'\""
        )
    if neither := sum(line not in identities for line in selection.places.keys() - archived.keys()):
        raise NotForgotten(
            f"--ids names {neither} positions that the archive of source {source.name!r} does not cover; expected "
            "TOPIC_ID/PARTITION:OFFSET, as `tandem quarantine` prints it, or the identity of an event"
        )
    by_partition: dict[Partition, list[Any]] = {}
    for partition, offset in archived.values():
        by_partition.setdefault(partition, []).append(np.array([offset]))
    return _coalesce(by_partition)


def _id_of(name: str) -> str:
    """An identity as a line has it, as SQL."""
    return f"CAST({quoted(name)} AS VARCHAR)"


def events_at(tables: Tables, source: str, decoder: str, places: Ranges) -> int:
    """How many events of a decoder the records at these positions have."""
    return rows_of(tables, tables.events(source, decoder), EVENTS, places)


def rows_of(tables: Tables, address: str, columns: PositionColumns, places: Ranges) -> int:
    """How many rows of a table are at these positions."""
    there = log_table(tables, address, columns)
    every = Ranges.of(dict.fromkeys(dict(places.intervals), EVERY_OFFSET))
    files = tuple(file.path for file in there.files if may_hold(file, places))
    read = scan(there.place, Slice(every, files, 0), columns, columns.names, rows=_SCAN_ROWS)
    return sum(int(rows_at(rows, columns, places).sum()) for rows in read)


def _collect(by_partition: dict[Partition, list[Any]], rows: pa.Table, columns: PositionColumns) -> None:
    """Add the offsets of the rows by partition."""
    topics, numbers = rows[columns.topic].to_pylist(), rows[columns.partition].to_numpy()
    offsets = rows[columns.offset].to_numpy()
    for topic, number in set(zip(topics, numbers.tolist(), strict=True)):
        of_topic = np.array([each == topic for each in topics])
        by_partition.setdefault((topic, number), []).append(offsets[of_topic & (numbers == number)])


def _coalesce(by_partition: Mapping[Partition, Sequence[Any]]) -> Ranges:
    document: dict[str, dict[str, list[list[int]]]] = {}
    for (topic, number), pieces in by_partition.items():
        offsets = np.unique(np.concatenate(pieces))
        breaks = np.flatnonzero(np.diff(offsets) > 1)
        starts, ends = offsets[[0, *(breaks + 1)]], offsets[[*breaks, len(offsets) - 1]] + 1
        document.setdefault(topic, {})[str(number)] = [list(pair) for pair in zip(starts.tolist(), ends.tolist(), strict=True)]
    return Ranges.from_json(document)
