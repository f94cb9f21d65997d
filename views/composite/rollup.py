"""A rollup: a view of another view's states, with some of its keys, longer windows and some of its measures.

It reads no event and stores no state: its states are those of its *root*, the view at the end of the chain of parents, united by
the rollup's keys and windows (`tandem.views.kernel.rollup_states`). So it always stands at the position of its root.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, timedelta
from functools import lru_cache
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from tandem.views.bound_view import BoundView
from tandem.views.errors import DefinitionError, listed
from tandem.views.instant import MICROSECOND, time_of
from tandem.views.source.source import Source
from tandem.views.source.united_source import sources_of
from tandem.views.source.value_types import ValueType
from tandem.views.sql.engine import quoted
from tandem.views.sql.expressions import bind_expression
from tandem.views.sql.syntax import with_columns
from tandem.views.time_zone import time_zone
from tandem.views.value_forms import MAPPINGS, not_a_mapping, not_a_text
from tandem.views.view import View, bind
from tandem.views.windows import AllTime, Calendar, Current, Hopping, Tumbling, Window
from tandem.views.windows.calendar import YEARS, window_starts
from tandem.views.windows.placement import Placement

_LONGER: Final = {"day": ("day", "week", "month"), "week": ("week",), "month": ("month",)}
"""The units whose windows are made of windows of a unit, on the same clocks."""

_COMPUTED: Final = ("boolean", "decimal", "integer", "text")
"""The kinds of an expression over keys: a key can have each of their values."""

_OFFSET: Final = len("2026-11-01T00:00:00")
"""Where the offset begins in a time of ISO 8601."""


@dataclass(frozen=True, eq=False)
class Rollup(View):
    """The view that `rollup` returns: its source, filter and expressions are those of `parent`, whose states it unites.

    `of_keys` has each key as an expression over the parent's keys; `keys` has what that is over an event.
    """

    parent: View = field(kw_only=True)
    of_keys: Mapping[str, str] = field(kw_only=True)
    unites: ClassVar[bool] = True
    """Whether its rows are states of the parent, united."""

    def binding(self) -> BoundView:
        """The view as if it read events. Raises DefinitionError if its windows are not unions of the parent's slices."""
        place = f"view {self.name!r}" if self.name else "a rollup"
        _check_parts(self, place)
        types = {name: _type(self, name, place) for name in self.keys}
        bound = super().binding()
        bound = replace(bound, keys=tuple((name, replace(key, type=types[name])) for name, key in bound.keys))
        try:
            _check_window(self, bound.placement, bind(self.parent).placement)
        except DefinitionError as error:
            raise DefinitionError(f"{place}, window: {self.window} {error}") from error
        return bound

    def _parts(self) -> tuple[object, ...]:
        return (*super()._parts(), self.parent, tuple(self.of_keys.items()))


def rollup(
    parent: View,
    *,
    keys: Sequence[str] | Mapping[str, str] | None = None,
    window: Window | None = None,
    measures: Sequence[str] | None = None,
    name: str = "",
    doc: str = "",
    expect: Mapping[str, str] | None = None,
) -> Rollup:
    """Make a view that unites the states of another: `rollup(sales, keys=["city"], window=calendar("day", zone="UTC"))`.

    Its rows unite those of `parent`, another view or rollup: it reads no event, and stands at the parent's own position.

    * `keys`: the names of those of the parent's keys that rows differ in; all unless given. Or expressions over the parent's keys
      by name, such as `{"country": "country", "area": "substr(zip, 1, 2)"}`: texts, integers,
      decimal numbers or booleans; a value is NULL where its expression fails.
    * `window`: made of the parent's slices: tumbling or hopping by a multiple, calendar, all_time; the parent's own unless given.
    * `measures`: the names of those of the parent's measures that it has; all unless given.
    * `expect`: conditions that its rows meet before they are published, as those of a view.

    Raises DefinitionError for a name that the parent lacks.
    """
    of: Any = parent
    if not isinstance(of, View):
        shown = repr(of) if isinstance(of, str) else f"a {type(of).__name__}"
        raise DefinitionError(f"rollup: {shown} is not a View; write rollup(sales, keys=('city',)) for a view sales")
    if isinstance(parent.window, Current):
        raise DefinitionError("rollup: the rows of a table cannot be united, because keys that are gone have none")
    if isinstance(parent, Rollup) and not parent.unites:
        raise DefinitionError("rollup: a view of a table's rows stores no states that could be united; make another such view")
    for part in MAPPINGS:
        value: Any = getattr(parent, part)
        if not isinstance(value, Mapping):
            raise DefinitionError(f"rollup: of its parent, {not_a_mapping(part, value)}")
    of_keys = dict(keys) if isinstance(keys, Mapping) else {name: quoted(name) for name in _chosen("key", keys, parent)}
    chosen = {name: _over_events(parent, name, text) for name, text in of_keys.items()}
    answers = _chosen("measure", measures, parent)
    named = {*chosen, *answers}
    return Rollup(
        source=parent.source,
        keys=chosen,
        window=parent.window if window is None else window,
        measures=answers,
        where=parent.where,
        name=name,
        doc=doc,
        docs={part: text for part, text in parent.docs.items() if part in named},
        units={part: text for part, text in parent.units.items() if part in named},
        tolerances={part: tolerance for part, tolerance in parent.tolerances.items() if part in named},
        keep=parent.keep,
        lookup=parent.lookup,
        expect={} if expect is None else expect,
        parent=parent,
        of_keys=of_keys,
    )


def root(view: View) -> View:
    """The view whose states the answers of a view are made of: of a rollup the first of its parents, else the view itself."""
    while isinstance(view, Rollup):
        view = view.parent
    return view


def ancestors(view: View) -> tuple[str, ...]:
    """The names of a rollup's parent, the parent's parent and so on; none of a view that reads events."""
    return (view.parent.name, *ancestors(view.parent)) if isinstance(view, Rollup) else ()


def keys_over_root(view: View) -> dict[str, str]:
    """By key of a view or rollup its SQL over the keys of its root: the quoted name of a key, or an expression over some."""
    if not isinstance(view, Rollup):
        return {name: quoted(name) for name in view.keys}
    above = keys_over_root(view.parent)
    return {name: _over(text, above) for name, text in view.of_keys.items()}


def over_views(rollups: Iterable[Rollup], views: Mapping[str, View]) -> dict[str, Rollup]:
    """Rollups by name over these views in place of those of the same names."""

    def over(each: Rollup) -> Rollup:
        parent = over(each.parent) if isinstance(each.parent, Rollup) else views[each.parent.name]
        return replace(each, parent=parent, source=parent.source, lookup=parent.lookup)

    return {each.name: over(each) for each in rollups}


def _over(text: str, above: Mapping[str, str]) -> str:
    """An expression over the keys of a view, over what they are made of: one of them, or what may fail and is then NULL."""
    names = {quoted(name): name for name in above} | {name: name for name in above}
    return above[names[text]] if text in names else f"TRY({with_columns(text, above)})"


def _over_events(parent: View, name: str, text: Any) -> str:
    """A key of a rollup as an expression over events. Raises DefinitionError."""
    if not isinstance(text, str):
        raise DefinitionError(f"rollup, key {name!r}: {text!r} {not_a_text(text)}")
    try:
        return _over(text, parent.keys)
    except DefinitionError as error:
        raise DefinitionError(f"rollup, key {name!r}: {text!r} {error}") from error


def _type(view: Rollup, name: str, place: str) -> ValueType:
    """The type of a rollup's key. Raises DefinitionError for an expression that its parent's keys do not have a value of."""
    text, of = view.of_keys[name], f"view {view.parent.name!r}" if view.parent.name else "its parent"
    columns = pa.schema([(key, bound.type.arrow) for key, bound in bind(view.parent).keys])
    try:
        bound = bind_expression(text, columns, f"a group of {of}")
    except DefinitionError as error:
        raise DefinitionError(f"{place}, key {name!r}: {text!r} {error}") from error
    if bound.column is None and bound.type.kind not in _COMPUTED:
        raise DefinitionError(
            f"{place}, key {name!r}: {text!r} is of type {bound.type.sql}; an expression over keys is a text, an integer, "
            "a decimal number or a boolean, such as strftime(day, '%Y-%m')"
        )
    return bound.type


def _chosen(part: str, names: Any, parent: View) -> dict[str, Any]:
    theirs: Mapping[str, Any] = parent.keys if part == "key" else parent.measures
    if names is None:
        return dict(theirs)
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise DefinitionError(f"rollup: {part}s={names!r} is not a tuple of names; {part}s of the parent: {listed('', theirs)}")
    for name in names:
        if not isinstance(name, str) or name not in theirs:
            other = "key" if part == "measure" else "measure"
            named = isinstance(name, str) and name in {**parent.keys, **parent.measures}
            hint = f", which is a {other} of it" if named else ""
            raise DefinitionError(f"rollup: the parent has no {part} {name!r}{hint}; {part}s: {listed(str(name), theirs)}")
    if len({*names}) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise DefinitionError(f"rollup: {part}s={names!r} has {repeated!r} more than once; name each {part} once")
    return {name: theirs[name] for name in names}


def _check_parts(view: Rollup, place: str) -> None:
    """Raise DefinitionError for a part that is not the parent's, as a copy with other parts has: no state has it."""
    of_keys = {name: _over_events(view.parent, name, text) for name, text in view.of_keys.items()}
    parts: tuple[tuple[str, Mapping[str, Any]], ...] = (("keys", of_keys), ("measures", view.parent.measures))
    for part, theirs in parts:
        for name, value in getattr(view, part).items():
            if name not in theirs or theirs[name] != value:
                raise DefinitionError(
                    f"{place}, {part}: {name!r} is not what the parent has; a rollup takes {part} of its parent by their names: "
                    f"{listed(name, theirs)}"
                )
    for part in ("where", "keep", "lookup"):
        value, of_parent = getattr(view, part), getattr(view.parent, part)
        if value != of_parent:
            raise DefinitionError(
                f"{place}, {part}: {value} is not what the parent has, {of_parent}; a rollup unites the parent's states, so "
                f"change the parent's {part}"
            )


def _check_window(view: Rollup, ours: Placement, theirs: Placement) -> None:
    """Raise DefinitionError unless every window is a union of the parent's slices."""
    window, parents = view.window, view.parent.window
    of = f"view {view.parent.name!r}" if view.parent.name else "its parent"
    for each, whose in ((window, "a rollup has"), (parents, f"{of} has {parents}, and a rollup's parent has")):
        if not isinstance(each, AllTime | Calendar | Hopping | Tumbling):
            raise DefinitionError(f"is not possible: {whose} windows by the clock: tumbling, hopping, calendar or all_time")
    if isinstance(window, AllTime):
        return
    if isinstance(parents, AllTime):
        raise DefinitionError(f"is not possible: {of} is of all time, so it has no slices to make windows of")
    if isinstance(parents, Calendar):
        if not isinstance(window, Calendar) or window.zone != parents.zone or window.unit not in _LONGER[parents.unit]:
            units = ", ".join(f"{unit}s" for unit in _LONGER[parents.unit])
            raise DefinitionError(
                f"is not made of windows of {parents}, which {of} has; possible are {units} in {parents.zone}, and all_time()"
            )
        return
    slice_ = theirs.timing.slice
    assert slice_ is not None  # tumbling and hopping windows have slices
    if isinstance(window, Calendar):
        for source in sources_of(view.parent.source):
            _check_zone(window, slice_, source, of)
    elif ours.timing.slice is None or ours.timing.slice % slice_:
        raise DefinitionError(f"has slices of {ours.timing.slice}, which is not a multiple of {slice_}, the slices of {of}")


def _check_zone(window: Calendar, slice_: timedelta, source: Source, of: str) -> None:
    """Raise DefinitionError for a window of the plausible years that starts inside a slice."""
    first, last = (time.astimezone(UTC).year for time in source.plausible)
    if source.prepare is not None:  # its rows may have any time
        first, last = YEARS
    if first < YEARS[0] or last > YEARS[1]:
        raise DefinitionError(f"has windows of the years {YEARS[0]} to {YEARS[1]}, and source {source.name!r} takes more years")
    if window.zone == "UTC":  # every day begins at a multiple of a day
        last = first + 1
    inside = _start_inside(window, slice_ // MICROSECOND, first, last)
    if inside is None:
        return
    local = time_of(inside).astimezone(time_zone(window.zone))
    raise DefinitionError(
        f"is not made of slices of {slice_}, which {of} has: in {local.year} the clocks of {window.zone} are "
        f"{local.isoformat()[_OFFSET:]} from UTC when a {window.unit} begins, and that is not a multiple of {slice_}; "
        f"take a shorter window for {of}, or another zone"
    )


@lru_cache(maxsize=256)
def _start_inside(window: Calendar, us: int, first: int, last: int) -> int | None:
    """The first start of a window of these years that is not the start of a slice, in microseconds since 1970."""
    for year in range(first, last + 1):
        starts = window_starts(window.unit, window.zone, year)
        inside = np.flatnonzero(starts % us)
        if len(inside):
            return int(starts[inside[0]])
    return None
