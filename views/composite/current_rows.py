"""A view of a table's current rows: `View(source=price_of.rows(), keys={"kind": "kind"}, measures={"n": count()})`.

Its events are the rows that the table has. It stores no state: when it is asked, the states of the table's versions are united,
and the rows that this presents are folded. So a row that was replaced or deleted is not in the answer, in both layers at once,
without a measure that can subtract. A row has the event time and the place in the log of its version.
"""

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, Final

import pyarrow as pa

from tandem.views.bound_view import BoundView
from tandem.views.composite.rollup import Rollup
from tandem.views.errors import DefinitionError
from tandem.views.lookup.file_table import FileTable
from tandem.views.measures.derived import Derived
from tandem.views.measures.filtered import bare
from tandem.views.measures.measure import POSITION
from tandem.views.measures.of_source import OfSource
from tandem.views.source.event import TIMESTAMP
from tandem.views.source.log_order import place_type
from tandem.views.source.rows_source import RowsOfTable, RowsSource, TableRow
from tandem.views.source.source import Source
from tandem.views.view import View, answer_schema, bind
from tandem.views.windows import AllTime

VALID_FROM: Final = "valid_from"
"""The event time of a version, or of a row by its version."""

PARTITION: Final = "_partition"
OFFSET: Final = "_offset"


@dataclass(frozen=True, eq=False, init=False)
class RowsView(Rollup):
    """The view that `View(source=table.rows(), ...)` makes: `parent` is the table, and `source` the table's source."""

    unites: ClassVar[bool] = False

    def __init__(self, source: Any, *parts: Any, **named: Any) -> None:
        if isinstance(source, RowsOfTable):
            named |= {"parent": source.table, "of_keys": {}}
            source = source.table.source
        super().__init__(source, *parts, **named)

    def binding(self) -> BoundView:
        """The view over rows. Raises DefinitionError for what no rows have."""
        place = f"view {self.name!r}" if self.name else "a view of rows"
        if type(self.window) is not AllTime:
            raise DefinitionError(
                f"{place}, window: {self.window} is not possible over the rows that a table has now; the window is all_time()"
            )
        for name, lookup in self.lookup.items():
            if not isinstance(lookup.table, FileTable):
                raise DefinitionError(f"{place}, lookup {name!r}: a view of a table's rows looks up in files alone")
        for name, measure in self.measures.items():
            if isinstance(measure, OfSource):
                raise DefinitionError(f"{place}, measure {name!r}: of= names a source of several, and the view reads one table")
            if not isinstance(measure, Derived) and POSITION[0] in getattr(bare(measure), "inputs", ()):
                raise DefinitionError(
                    f"{place}, measure {name!r}: {measure} reads where in the log an event is; a row of a table has only the "
                    "order of its version"
                )
        return bind(folding(self))


def of_rows(view: View) -> View:
    """The view with the states that a view has itself: of rows the view that folds them, else itself."""
    return folding(view) if isinstance(view, RowsView) else view


def of_states(view: View) -> View:
    """The view whose states are merged to answer for a view: of rows the table, else the view itself."""
    return view.parent if isinstance(view, RowsView) else view


@lru_cache(maxsize=1024)
def folding(view: RowsView) -> View:
    """The view that folds the table's rows as if they were events."""
    table, real = view.parent, view.parent.source
    answers = answer_schema(table)
    row = [answers.field(name).remove_metadata() for name in (*table.keys, *table.measures)]
    places = [(PARTITION, pa.int32()), (OFFSET, place_type(real)), (VALID_FROM, TIMESTAMP)]
    values: dict[str, Any] = {field.name: getattr(real, field.name) for field in fields(Source)}
    values |= {"event": TableRow, "event_time": VALID_FROM, "prepare": None, "max_events_per_record": None, "versions": ()}
    values |= {"keep": None, "identity": (), "unnest": None}
    return View(
        source=RowsSource(**values, columns=pa.schema([*map(pa.field, *zip(*places, strict=True)), *row])),
        keys=view.keys,
        window=view.window,
        measures=view.measures,
        where=view.where,
        name=view.name,
        doc=view.doc,
        docs=view.docs,
        units=view.units,
        tolerances=view.tolerances,
        keep=view.keep,
        lookup=view.lookup,
    )
