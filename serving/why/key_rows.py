"""Which events have the keys of a row, by the view's own expressions."""

from typing import Final

import numpy as np
import pyarrow as pa

from tandem.serving.why.row_groups import Mask
from tandem.views.arrow import arrays
from tandem.views.source.source import Source, position_columns
from tandem.views.source.value_types import normalised, objections
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.sql.syntax import enclosed
from tandem.views.view import View, bind

_ROWS: Final = "_events_of_keys"
_ASKED: Final = "_asked_keys"
_OTHERS: Final = "_events_to_match"
_ROW: Final = "_row"
_FAILS: Final = "_key_fails_{}"


def rows_with_key(view: View, events: pa.Table, key: pa.Table, *, unknown: bool) -> Mask:
    """Which rows of prepared events have the key, a row of some keys; with `unknown` also those whose key fails.

    An event whose key fails has no key, and so may have been meant for any. NULL is a key as any other.
    """
    keys = [(name, of) for name, of in bind(view).keys if name in key.column_names]
    texts, same = list[str](), list[str]()
    for number, (name, of) in enumerate(keys):
        value, fails = normalised(enclosed(of.text), of.type), _FAILS.format(number)
        refused = [f"coalesce({condition}, false)" for condition, _ in objections(f"TRY({value})", of.type)]
        raises = "false" if of.column else f"(TRY({value}) IS NULL AND TRY(({value}) IS NULL) IS NOT TRUE)"
        texts += [f"TRY({value}) AS {quoted(name)}", f"{' OR '.join((raises, *refused))} AS {fails}"]
        alike = f"{_ROWS}.{quoted(name)} IS NOT DISTINCT FROM {_ASKED}.{quoted(name)}"
        same.append(f"({alike} OR {_ROWS}.{fails})" if unknown else f"({alike} AND NOT {_ROWS}.{fails})")
    inner = f"(SELECT {', '.join([_ROW, *texts])} FROM {_ROWS}) AS {_ROWS}"
    sql = f"SELECT {_ROW} FROM {inner}, {_ASKED} WHERE {' AND '.join(same)}"
    mask = np.zeros(events.num_rows, dtype=bool)
    if not keys:
        return ~mask
    for piece, matched in engine.halved(sql, _ROWS, _with_numbers(events), {_ASKED: key}):
        if matched is not None:
            mask[matched[_ROW].to_numpy()] = True
        elif unknown:
            mask[piece[_ROW].to_numpy()] = True
    return mask


def rows_among(events: pa.Table, others: pa.Table, columns: list[str]) -> Mask:
    """Which events agree with one of the others in these columns."""
    sql = f"SELECT {_ROW} FROM {_ROWS} SEMI JOIN {_OTHERS} ON " + " AND ".join(
        f"{_ROWS}.{quoted(name)} IS NOT DISTINCT FROM {_OTHERS}.{quoted(name)}" for name in columns
    )
    mask = np.zeros(events.num_rows, dtype=bool)
    mask[engine.query(sql, {_ROWS: _with_numbers(events.select(columns)), _OTHERS: others.select(columns)})[_ROW].to_numpy()] = (
        True
    )
    return mask


def events_of_rows(source: Source, events: pa.Table, rows: pa.Table) -> Mask:
    """Which events some of these prepared rows were made of."""
    return rows_among(events, rows, [*position_columns(source)])


def _with_numbers(events: pa.Table) -> pa.Table:
    return events.append_column(_ROW, arrays.row_numbers(events.num_rows))
