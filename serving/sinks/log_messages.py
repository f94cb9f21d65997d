"""Messages about rows that change, for a target that is a log.

| kind | it means | value |
| --- | --- | --- |
| `row` | a row that is new or has changed, or a row of a complete snapshot | the row |
| `gone` | a row that no longer exists | none |
| `final` | the row of a window that became final; each row once | the row |
| `late` | a final row that changed after that | the row |
| `withdrawn` | a final row that no longer exists | none |
| `change` | a row before and after, or a row of a complete snapshot | `op`, `before` and `after` |
| `truncate` | a complete snapshot follows: all earlier rows are void | `op` t |
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa

from tandem.serving.changes import Changes
from tandem.views.kernel.rows import to_rows, written
from tandem.views.windows.placement import WINDOW_STATE

MessageKind = Literal["row", "gone", "final", "late", "withdrawn", "change", "truncate"]


@dataclass(frozen=True)
class SinkMessage:
    """A message about the row of a key and window; about all rows without a `key`. Values are as JSON has them."""

    kind: MessageKind
    key: Mapping[str, Any] | None
    value: Mapping[str, Any] | None


TRUNCATE: Final = SinkMessage("truncate", None, {"op": "t", "before": None, "after": None})


def messages(change: Changes, output: str) -> list[SinkMessage]:
    """The messages of an update: of the output append, or of changes, which the output update sends without the rows before."""
    if output == "append":
        return list(_final(change))
    envelopes = list(_before_and_after(change))
    return [*map(_present, envelopes)] if output == "update" else envelopes


def _present(envelope: SinkMessage) -> SinkMessage:
    """A row as it is now, of a row before and after."""
    if envelope.key is None or envelope.value is None:
        return envelope
    after = envelope.value["after"]
    return SinkMessage("gone" if after is None else "row", envelope.key, after)


def _final(change: Changes) -> Iterator[SinkMessage]:
    place = change.gone.column_names
    late = () if isinstance(change.late, int) else to_rows(change.late.view, without_label(change.late.table))
    for row in to_rows(change.rows.view, without_label(change.rows.table)):
        yield SinkMessage("final", _key(row, place), row)
    for row in late:
        yield SinkMessage("late", _key(row, place), row)
    gone = with_kinds(change.gone, change.rows.table.schema)
    columns = [written(gone[field.name].combine_chunks(), field) for field in gone.schema]
    for values in zip(*columns, strict=True):
        yield SinkMessage("withdrawn", dict(zip(place, values, strict=True)), None)


def _before_and_after(change: Changes) -> Iterator[SinkMessage]:
    if change.first:
        yield TRUNCATE
    for envelope in change.envelopes():
        after = envelope["after"] and {name: value for name, value in envelope["after"].items() if name != WINDOW_STATE.name}
        key = _key(after or envelope["before"], change.gone.column_names)
        yield SinkMessage("change", key, {**envelope, "after": after})


def _key(row: Mapping[str, Any], identity: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in identity}


def without_label(rows: pa.Table) -> pa.Table:
    """Rows without the label of their window, which moves with time and is not a change."""
    return rows.select([name for name in rows.column_names if name != WINDOW_STATE.name])


def with_kinds(rows: pa.Table, answers: pa.Schema) -> pa.Table:
    """Columns of answers with the kinds of values that their answers have."""
    fields = [field.with_metadata(answers.field(field.name).metadata) for field in rows.schema]
    return pa.Table.from_arrays(rows.columns, schema=pa.schema(fields))
