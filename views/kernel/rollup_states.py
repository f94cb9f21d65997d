"""The kernel's roll: unites states of a view into those of a rollup."""

from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Final

import pyarrow as pa

from tandem.views.composite.current_rows import of_states
from tandem.views.composite.rollup import Rollup, keys_over_root, root
from tandem.views.composite.together import parts, widen
from tandem.views.kernel.look_up import NO_VERSIONS, Versions
from tandem.views.kernel.merge import regrouped
from tandem.views.kernel.partial import Partial, partial
from tandem.views.source.event import Event
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import Source
from tandem.views.source.value_types import normalised
from tandem.views.view import View, bind, state_schema
from tandem.views.windows.placement import WINDOW_COLUMNS, Step


class SliceOfRoot(Event):
    """A state's slice, which a rollup's window places as a view's window places an event."""

    window_start: datetime


_SLICES: Final = Source(topic="slices", event=SliceOfRoot, event_time=WINDOW_COLUMNS[0], name="slices")


def roll(view: View, states: pa.Table) -> pa.Table:
    """A rollup's states, of states of its root or a part of it; of a view over several sources, of states of a part; of a view
    of a table's rows the table's states.

    Those of a view of one source are its own. Merging and rolling commute: states may be rolled one by one and merged, or merged
    and rolled.
    """
    view = of_states(view)
    states = widen(root(view), states)
    return regrouped(view, _step(view), states, state_schema(view), _keys(view)) if isinstance(view, Rollup) else states


def partial_of(
    view: View,
    events: pa.Table,
    ranges: Ranges,
    failed: int = 0,
    *,
    source: Source | None = None,
    versions: Versions = NO_VERSIONS,
) -> Partial:
    """The partial of a view or rollup, where nobody has the states of its root: it folds the events into these first.

    `source` is whose events they are, where the view reads several; `versions` are as of `partial`.
    """
    of = next(part for part in parts(root(view)) if source is None or part.source == source)
    folded = partial(of, events, ranges, failed, versions=versions)
    return replace(folded, states=roll(view, folded.states))


@lru_cache(maxsize=1024)
def _keys(view: Rollup) -> dict[str, str]:
    """The rollup's keys in SQL over the states of its root."""
    over = keys_over_root(view)
    return {name: over[name] if key.column else normalised(over[name], key.type) for name, key in bind(view).keys}


@lru_cache(maxsize=1024)
def _step(view: Rollup) -> Step:
    """The step that puts slices into the rollup's windows."""
    placement = view.window.bind(_SLICES, ())
    fold = placement.steps.fold
    columns = [f"{sql} AS {name}" for name, sql in placement.events.columns.items() if sql != name]

    def layer(rows: str, within: str) -> str:  # noqa: ARG001  slices of all keys are placed alike
        return f"(SELECT {', '.join(['*', *columns])} FROM {rows})"

    return Step(fold.groups, fold.aggregates, fold.finish, layer, fold.prepare)
