"""A view over several sources: one answer made of the states of *parts*, a view of each source with the measures that read it.

It stores nothing itself. Its parts have its keys, window and filter, and are folded, stored and recomputed as any view is. A
state of a part is a state of the whole once it has the columns of the other sources' measures, as they are where no event was
counted; so a row exists if any source has an event there, and the states of all parts merge as those of one view do.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.bound_view import BoundMeasure, BoundView
from tandem.views.column_names import check_columns
from tandem.views.composite.rollup import Rollup
from tandem.views.errors import DefinitionError, listed
from tandem.views.lookup.lookup import check_place
from tandem.views.measures.derived import Derived
from tandem.views.measures.filtered import bare, filtered
from tandem.views.measures.measure import LOG_ORDER, POSITION, Measure
from tandem.views.measures.of_source import OfSource
from tandem.views.source.source import Source
from tandem.views.source.united_source import UnitedSource, sources_of
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.view import (
    BINDINGS,
    View,
    add_derived_measures,
    bind,
    columns_of,
    names_of_columns,
    state_schema,
)
from tandem.views.windows import AllTime, Calendar, Hopping, Tumbling

_NEVER: Final = "FALSE"
_EVENTS: Final = "_events"


def several(view: View) -> bool:
    """Whether the view reads several sources."""
    return isinstance(view.source, UnitedSource)


@lru_cache(maxsize=1024)
def parts(view: View) -> tuple[View, ...]:
    """The views whose states answer for a view: one of each source, or the view itself."""
    return tuple(_part(view, source) for source in view.source.sources) if isinstance(view.source, UnitedSource) else (view,)


def over(view: View, sources: Mapping[Source, Source]) -> View:
    """The view with other sources in place of its own, in its measures too."""
    measures = {
        name: replace(measure, source=sources.get(measure.source, measure.source)) if isinstance(measure, OfSource) else measure
        for name, measure in view.measures.items()
    }
    if not isinstance(view.source, UnitedSource):
        return replace(view, source=sources[view.source], measures=measures)
    return replace(view, source=tuple(sources[each] for each in view.source.sources), measures=measures)


def widen(view: View, states: pa.Table) -> pa.Table:
    """States of a part as states of the whole; those of a view over one source are the whole's."""
    schema = state_schema(view)
    if not several(view) or states.schema.names == schema.names:
        return states
    neutral, rows = _neutral(view), states.num_rows
    none = arrays.from_numpy(arrays.integers(pa.array([0], pa.int64())).repeat(rows), pa.int64())
    columns = [
        arrays.whole(states[each.name]) if each.name in states.schema.names else neutral[each.name].take(none) for each in schema
    ]
    return arrays.table(columns, schema)


def _part(view: View, source: Source) -> View:
    measures = {name: of for name, measure in view.measures.items() if (of := _of(measure, source)) is not None}
    named = {*view.keys, *measures}
    return View(
        source=source,
        keys=view.keys,
        window=view.window,
        measures=measures,
        where=view.where,
        lookup=view.lookup,
        name=f"{view.name}__{source.name}" if view.name else "",
        docs={name: text for name, text in view.docs.items() if name in named},
        units={name: text for name, text in view.units.items() if name in named},
        tolerances={name: tolerance for name, tolerance in view.tolerances.items() if name in named},
        keep=view.keep,
    )


def _of(measure: Measure, source: Source) -> Measure | None:
    """What a part of a source keeps of a measure; None if nothing."""
    if isinstance(measure, OfSource):
        return measure.measure if measure.source == source else None
    return None if isinstance(measure, Derived) else measure


def _binding(view: View) -> BoundView:
    """The whole, bound from its parts. Raises DefinitionError naming the view, the part, the source and what would be valid."""
    place = f"view {view.name!r}" if view.name else "a view"
    _check(view, place)
    bounds = {part.source: _bind_part(part, place) for part in parts(view) if part.measures}
    (first, bound), *others = bounds.items()
    for source, other in others:
        for (name, key), (_, same) in zip(bound.keys, other.keys, strict=True):
            if key.type != same.type:
                raise DefinitionError(
                    f"{place}, key {name!r}: {view.keys[name]!r} is of type {key.type.sql} in source {first.name!r} and of type "
                    f"{same.type.sql} in source {source.name!r}; a key has one type in every source, so cast it"
                )
    measures: dict[str, BoundMeasure] = {}
    for source, other in bounds.items():
        for measure in other.measures:
            was = measures.setdefault(measure.name, measure)
            if _columns_and_types(was) != _columns_and_types(measure):
                raise DefinitionError(
                    f"{place}, measure {measure.name!r}: {view.measures[measure.name]} is of other types in source "
                    f"{source.name!r} than in source {first.name!r}; name its source with of=, or cast what it reads"
                )
    add_derived_measures(view, measures, place)
    check_columns(place, names_of_columns(bound.placement), [*view.keys, *columns_of(measures.values())])
    return BoundView(
        bound.keys,
        bound.where,
        tuple(measures[name] for name in view.measures),
        bound.placement,
        bound.window_inputs,
        lookups=bound.lookups,
        lookups_of_filter=bound.lookups_of_filter,
    )


def _columns_and_types(measure: BoundMeasure) -> tuple[object, ...]:
    return measure.aggregate.answer, *((name, state.type) for name, state in measure.states)


def _check(view: View, place: str) -> None:
    """Raise DefinitionError for what a view over one source may have, or lacks, over several."""
    if not isinstance(view.window, AllTime | Calendar | Hopping | Tumbling):
        raise DefinitionError(
            f"{place}, window: {view.window} is not possible over several sources, because it follows the events of one log; "
            "windows by the clock are: tumbling, hopping, calendar and all_time"
        )
    if view.keep is not None:
        raise DefinitionError(
            f"{place}, keep: a view over several sources keeps all its windows, because each source has its own newest time"
        )
    check_place(view.lookup, place, "several sources")
    sources = sources_of(view.source)
    names = [each.name for each in sources]
    for name, measure in view.measures.items():
        if isinstance(measure, OfSource) and measure.source not in sources:
            raise DefinitionError(
                f"{place}, measure {name!r}: of={measure.source.name} is not a source of the view; sources: {listed('', names)}"
            )
        if not isinstance(measure, OfSource | Derived) and {*bare(measure).inputs} & {*LOG_ORDER, *POSITION}:
            raise DefinitionError(
                f"{place}, measure {name!r}: {measure} follows the order of one log; name its source, such as of={names[0]}"
            )
    for part in parts(view):
        if not part.measures and not isinstance(view, Rollup):
            raise DefinitionError(
                f"{place}: no measure reads source {part.source.name!r}; add one, such as count(of={part.source.name}), or leave "
                "the source out"
            )


def _bind_part(part: View, place: str) -> BoundView:
    try:
        return bind(part)
    except DefinitionError as error:
        text = str(error).removeprefix(f"view {part.name!r}" if part.name else place)
        raise DefinitionError(f"{place}, in source {part.source.name!r}{text}") from error


@lru_cache(maxsize=1024)
def _neutral(view: View) -> dict[str, pa.Array]:
    """By column of states, the state of no event, with which uniting changes nothing: that of a filter that no event meets."""
    neutral: dict[str, pa.Array] = {}
    for part in parts(view):
        measures = {name: filtered(bare(measure), _NEVER) for name, measure in part.measures.items()}
        for measure in bind(replace(part, measures=measures, tolerances={})).measures:
            read = [quoted(f"v{number}") for number, _ in enumerate(measure.inputs)]
            folds = ", ".join(f"{state.fold.format(*read)} AS {quoted(name)}" for name, state in measure.states)
            nulls = [pa.nulls(1, expression.type.arrow) for expression in measure.inputs[1:]]
            event = pa.Table.from_arrays([pa.array([False]), *nulls], names=[f"v{number}" for number, _ in enumerate(read)])
            folded = engine.query(f"SELECT {folds} FROM {_EVENTS}", {_EVENTS: event})
            for name, state in measure.states:
                column = arrays.whole(folded[name])
                neutral[name] = (column if state.build is None else state.build(column)).cast(state.type)
    return neutral


BINDINGS[UnitedSource] = _binding
