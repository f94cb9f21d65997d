"""Answers as batch + realtime = merged, all at one snapshot: what the demo shows of its views."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tandem.cli.demo.watcher import Look, Watcher
from tandem.serving.read.provenance import Layer
from tandem.views.measures.count import Count
from tandem.views.measures.filtered import bare
from tandem.views.measures.total import Total
from tandem.views.view import View, bind, group_columns
from tandem.views.windows import WINDOW_COLUMNS

_LAYERS: Final[tuple[Layer, ...]] = ("batch", "speed", "merged")
_VIEWS: Final = 3
_ROWS: Final = 3
_EXACT_KINDS: Final = ("integer", "decimal")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class LayeredValue:
    """One measure of one row in each layer, None where a layer has no such row; `place` names view or row for a person.

    With `sums` the merged value is the sum of the other two; else both layers' states are merged in another way.
    """

    place: str
    measure: str
    batch: Any
    realtime: Any
    merged: Any
    sums: bool


@dataclass(frozen=True)
class Scene:
    """The positions at one snapshot, and the values of some views at the same one."""

    look: Look
    values: Sequence[LayeredValue]


def observe(watcher: Watcher, names: Sequence[str]) -> Scene | None:
    """Pin the newest snapshot and read these views' layers there; None until they can be answered. Raises ReadFailed."""
    while (look := watcher.look()) is not None:
        pinned = watcher.reader.snapshot()
        values = [value for name in names for value in _values(watcher, name)]
        # A reader whose files were deleted goes on at a newer snapshot: then values of two snapshots do not add up.
        if watcher.reader.snapshot() is pinned:
            return Scene(look, values)
    return None


def screen_views(views: Mapping[str, View]) -> Sequence[str]:
    """The views for a screen: up to three without keys and windows, else the first one whose rows add up.

    Rows add up if windows have the same bounds in each layer. Sessions and windows in the order of the log do not.
    """
    adding = [name for name, view in views.items() if _adds_up(view)]
    whole = [name for name in adding if not views[name].keys and not bind(views[name]).placement.timing.bounded]
    return whole[:_VIEWS] or adding[:1]


def sum_measures(view: View) -> list[str]:
    """The measures of which the values of two sets of events add up exactly: counts, and totals of integers and decimals."""
    return [
        bound.name
        for bound in bind(view).measures
        if isinstance(bare(view.measures[bound.name]), Count | Total) and bound.aggregate.kind in _EXACT_KINDS
    ]


def _adds_up(view: View) -> bool:
    placement = bind(view).placement
    return placement.independent and not placement.in_order and bool(sum_measures(view))


def _values(watcher: Watcher, name: str) -> Iterator[LayeredValue]:
    view = watcher.every_view[name]
    columns = group_columns(view)
    # By key and window alone: other fields of a row are labels, and a layer's rows have labels of their own.
    rows = {layer: {_place(row, columns): row for row in watcher.answer(name, layer).rows()} for layer in _LAYERS}
    sums = sum_measures(view)
    for place, merged in list(rows["merged"].items())[-_ROWS:]:
        batch, realtime = (rows[layer].get(place, {}) for layer in ("batch", "speed"))
        for measure in [*sums, *(other for other in view.measures if other not in sums)]:
            values = (batch.get(measure), realtime.get(measure), merged[measure])
            yield LayeredValue(_title(view, merged), measure, *values, sums=measure in sums)


def _place(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(repr(row[column]) for column in columns)


def _title(view: View, row: Row) -> str:
    start = row.get(WINDOW_COLUMNS[0])
    parts = [*(str(row[key]) for key in view.keys), *([] if start is None else [time_text(start)])]
    return " ".join(parts) or view.name


def time_text(text: str) -> str:
    """A time of an answer to the second, without its zone, which is UTC."""
    return text[:19].rstrip("Z").replace("T", " ")
