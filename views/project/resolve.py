"""Turns the tuples SOURCES, VIEWS, SINKS and ALERTS into named, checked definitions; every error names the definition's place."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MethodType, ModuleType
from typing import Any, Final, TypeVar

from tandem.views.alert import Alert
from tandem.views.composite.rollup import Rollup
from tandem.views.composite.table import VERSIONS, Table, looked_up
from tandem.views.composite.together import over, parts, several
from tandem.views.decode import parser
from tandem.views.errors import DefinitionError, listed, said_by
from tandem.views.expectation import conditions
from tandem.views.lookup.lookup import Lookup
from tandem.views.project.isolated_import import DEFINITIONS, ProjectLoader
from tandem.views.project.partition_key import bind_key
from tandem.views.project.source_location import place_of_variable
from tandem.views.sinks.sink import Sink
from tandem.views.source.prepare import prepared_schema
from tandem.views.source.source import Source
from tandem.views.source.united_source import sources_of
from tandem.views.value_forms import MAPPINGS, display_text, not_a_mapping
from tandem.views.view import View, bind

Definition = TypeVar("Definition", Source, View, Sink, Alert)
OfView = TypeVar("OfView", Sink, Alert)
Place = Callable[[Source | View | Sink | Alert], str]

_TUPLES: Final = {"SOURCES": Source, "VIEWS": View, "SINKS": Sink, "ALERTS": Alert}
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}", re.ASCII)


def named_definitions(
    loader: ProjectLoader, modules: Sequence[ModuleType]
) -> tuple[list[Source], list[View], list[Sink], list[Alert]]:
    """The sources, views, sinks and alerts that a project lists, each under its `name` or its variable's, in their order.

    Without SOURCES or VIEWS those that definitions.py has as variables count, in its order, and the sources of its views. SINKS
    and ALERTS are alike, and a project may have none.
    Raises DefinitionError if a name is missing, taken or not a name, if a view's source is not listed, or if a definition
    does not fit its event type.
    """
    variables = _variables(loader, modules)

    def place(definition: Source | View | Sink | Alert) -> str:
        kind = next(name for name, of in _TUPLES.items() if isinstance(definition, of))
        return place_of_variable(loader, variables.get(id(definition), kind))

    sources = _of_modules(modules, "SOURCES", Source, loader)
    names = _names(sources, variables, place, "source")
    named = {id(source): replace(source, name=name) for source, name in zip(sources, names, strict=True)}
    for source in sources:
        with _placed(f"{place(source)}: source {named[id(source)].name!r}"):
            for event, decoder in (
                (source.event, source.decoder),
                *((version.event, version.decoder) for version in source.versions),
            ):
                parser(event, decoder, source.max_events_per_record, each=source.each_event_alone, unnest=source.unnest)
            prepared_schema(source)
            bind_key(source)

    views, named_so = _with_versions(_of_modules(modules, "VIEWS", View, loader), variables)
    built = []
    for view, name in zip(views, _names(views, named_so, place, "view"), strict=True):
        _check_parts(view, f"{place(view)}: view {name!r}")
        for source in sources_of(view.source):
            if id(source) not in named:
                have = listed(variables.get(id(source), ""), [each.name for each in named.values()])
                raise DefinitionError(f"{place(view)}: view {name!r}: its source is not in SOURCES; sources: {have}")
        with _placed(f"{place(view)}: view {name!r}"):
            of_project = over(view, {source: named[id(source)] for source in sources_of(view.source)})
        built.append(replace(of_project, name=name))
    copies = dict(zip(map(id, views), built, strict=True))
    of_views: dict[int, View] = {}
    for view in views:
        with _placed(place(view)):
            of_views[id(view)] = _over_tables(_over_parents(copies[id(view)], copies), copies)
            bind(of_views[id(view)])
            conditions(of_views[id(view)])
    built = _tables_first([*of_views.values()])
    _refuse_mutual(built)
    _check_parts_of(built)
    context = loader, modules, variables, place, of_views
    alerts = [alert for _, alert in _of_views(*context, tuple_name="ALERTS", kind=Alert)]
    sinks: dict[object, Sink] = {}
    for where, sink in _of_views(*context, tuple_name="SINKS", kind=Sink):
        if (other := sinks.setdefault(sink.to, sink)) is not sink:
            raise DefinitionError(f"{where}: {sink.to} is the target of sink {other.name!r}; give each sink its own")
    return list(named.values()), built, list(sinks.values()), alerts


def _with_versions(views: Sequence[View], variables: dict[int, str]) -> tuple[list[View], dict[int, str]]:
    """The views, before each table the view of its versions, and the names: that of versions is the table's with `_versions`."""
    every: list[View] = []
    names = dict(variables)
    for view in views:
        if isinstance(view, Table):
            name = view.name or variables.get(id(view), "")
            names[id(view.parent)] = f"{name}{VERSIONS}" if isinstance(name, str) and name else ""
            variables.setdefault(id(view.parent), variables.get(id(view), "VIEWS"))
            every += [view.parent] if all(view.parent is not other for other in every) else []
        every.append(view)
    return every, names


def _check_parts_of(views: Sequence[View]) -> None:
    """Raise DefinitionError for a view with the name of a part of another one."""
    names = {view.name.casefold(): view.name for view in views}
    for view in views:
        for part in parts(view) if several(view) and not isinstance(view, Rollup) else ():
            if part.name.casefold() in names:
                raise DefinitionError(
                    f"view {names[part.name.casefold()]!r}: the name is that of the states of view {view.name!r} of source "
                    f"{part.source.name!r}; give one of both another name"
                )


def _over_parents(view: View, views: Mapping[int, View]) -> View:
    """A rollup over its parent as the project names it, whose parent in turn may be one. Raises DefinitionError."""
    if not isinstance(view, Rollup):
        return view
    if id(view.parent) not in views:
        have = listed(view.parent.name, [each.name for each in views.values() if each is not view])
        what = "the view that it rolls up" if view.unites else "the table whose rows it reads"
        raise DefinitionError(f"view {view.name!r}: {what} is not in VIEWS; views: {have}")
    return replace(view, parent=_over_parents(views[id(view.parent)], views))


def _over_tables(view: View, views: Mapping[int, View]) -> View:
    """A view, or the root of a rollup, that looks up in tables as the project names them. Raises DefinitionError."""
    if isinstance(view, Rollup):
        parent = _over_tables(view.parent, views)
        return view if parent is view.parent else replace(view, parent=parent, lookup=parent.lookup)
    lookups: dict[str, Any] = {}
    for name, lookup in view.lookup.items():
        lookups[name] = lookup
        if isinstance(lookup, Lookup) and isinstance(lookup.table, Table):
            if id(lookup.table) not in views:
                have = listed(lookup.table.name, [each.name for each in views.values() if isinstance(each, Table)])
                raise DefinitionError(
                    f"view {view.name!r}, lookup {name!r}: its table is not in VIEWS; assign it to a variable; tables: "
                    f"{have or 'none'}"
                )
            table = _over_parents(views[id(lookup.table)], views)
            assert isinstance(table, Table)  # the named copy of one
            lookups[name] = replace(lookup, table=table)
    return replace(view, lookup=lookups) if lookups else view


def _refuse_mutual(views: Sequence[View]) -> None:
    """Raise DefinitionError if views of two sources look up in tables of each other's: none of both could be counted first."""
    reads = {(view.source.name, of.source.name): view for view in views for of in looked_up(view).values()}
    for (source, table), view in reads.items():
        if any(other == table for other, _ in reads):
            raise DefinitionError(
                f"view {view.name!r} of source {source!r} looks up in a table of source {table!r}, which has a view "
                "that looks up in a table, too, and a table's source is counted first; join one of both in SQL (docs/tables.md)"
            )


def _tables_first(views: Sequence[View]) -> list[View]:
    """The views in their order, but those of versions before the views that look up in them."""
    first = {name for view in views for name in looked_up(view)}
    return [*(view for view in views if view.name in first), *(view for view in views if view.name not in first)]


def _of_views(
    loader: ProjectLoader,
    modules: Sequence[ModuleType],
    variables: Mapping[int, str],
    place: Place,
    views: Mapping[int, View],
    *,
    tuple_name: str,
    kind: type[OfView],
) -> Iterator[tuple[str, OfView]]:
    """The sinks or alerts of these views, by the views' ids, each after its place. Raises DefinitionError."""
    if not any(tuple_name in vars(module) or any(isinstance(each, kind) for each in vars(module).values()) for module in modules):
        return
    definitions, word = _of_modules(modules, tuple_name, kind, loader), kind.__name__.lower()
    for definition, name in zip(definitions, _names(definitions, variables, place, word), strict=True):
        where = f"{place(definition)}: {word} {name!r}"
        if id(definition.view) not in views:
            have = listed(variables.get(id(definition.view), ""), [view.name for view in views.values()])
            raise DefinitionError(f"{where}: its view is not in VIEWS; views: {have}")
        checked = replace(definition, name=name, view=views[id(definition.view)])
        with _placed(where):
            checked.check()
        yield where, checked


def _variables(loader: ProjectLoader, defining: Sequence[ModuleType]) -> dict[int, str]:
    """The variable of each source, view, sink and alert, by id; the first one in definitions.py counts."""
    modules = [*defining, *(module for module in loader.modules.values() if module not in defining)]
    found: dict[int, str] = {}
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, Source | View | Sink | Alert):
                found.setdefault(id(value), name)
    return found


def _of_modules(
    modules: Sequence[ModuleType], tuple_name: str, kind: type[Definition], loader: ProjectLoader
) -> list[Definition]:
    """The definitions of a kind in definitions.py, then those of definitions.sql; each once, and one of both may have none."""
    if len(modules) == 1:
        return _listed(modules[0], tuple_name, kind, loader)
    by_id: dict[int, Definition] = {}
    for module in modules:
        if tuple_name in vars(module) or any(isinstance(value, kind) for value in vars(module).values()):
            by_id |= {id(definition): definition for definition in _listed(module, tuple_name, kind, loader)}
    return list(by_id.values())


def _listed(definitions: ModuleType, tuple_name: str, kind: type[Definition], loader: ProjectLoader) -> list[Definition]:
    listed_ones = vars(definitions).get(tuple_name)
    if listed_ones is None:
        return _of_variables(definitions, kind)
    place = place_of_variable(loader, tuple_name)
    if not isinstance(listed_ones, Sequence) or isinstance(listed_ones, str):
        hint = " (a tuple of one ends with a comma)" if isinstance(listed_ones, kind) else ""
        raise DefinitionError(f"{place}: {tuple_name} is a {type(listed_ones).__name__}, not a tuple{hint}")
    for number, one in enumerate(listed_ones):
        if not isinstance(one, kind):
            raise DefinitionError(f"{place}: {tuple_name}[{number}] is {one!r}, not a {kind.__name__}")
    return list(listed_ones)


def _of_variables(definitions: ModuleType, kind: type[Definition]) -> list[Definition]:
    """The definitions of a kind in definitions.py, each once, but for names that begin with _. Raises DefinitionError."""
    values: list[Any] = [value for name, value in vars(definitions).items() if not name.startswith("_")]
    views: Any = vars(definitions).get("VIEWS", values)
    of_views: list[Any] = []
    for view in views if isinstance(views, Sequence) else ():
        of_views += sources_of(view.source) if isinstance(view, View) else ()
    listed_ones: dict[int, Definition] = {id(value): value for value in (*values, *of_views) if isinstance(value, kind)}
    if not listed_ones:
        name = kind.__name__
        raise DefinitionError(f"{DEFINITIONS}.py: no {name}; assign {name}(...) to a variable, as `tandem init` does")
    return list(listed_ones.values())


def _names(definitions: Sequence[Definition], variables: Mapping[int, str], place: Place, kind: str) -> list[str]:
    taken: dict[str, str] = {}
    names = []
    for definition in definitions:
        name, where = definition.name or variables.get(id(definition), ""), place(definition)
        if not name:
            raise DefinitionError(f"{where}: a {kind} has no name: assign it to a variable or give it name='...'")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DefinitionError(f"{where}: {kind} {name!r}: invalid name; use a letter, then letters, digits and underscores")
        if (other := taken.setdefault(name.casefold(), where)) != where or name in names:
            raise DefinitionError(f"{where}: {kind} {name!r}: the name is taken at {other}; names differ in more than case")
        names.append(name)
    return names


def _check_parts(view: View, place: str) -> None:
    for part in MAPPINGS:
        value: Any = getattr(view, part)
        if not isinstance(value, Mapping):
            raise DefinitionError(f"{place}: {not_a_mapping(part, value)}")
    source: Any = view.source
    if not isinstance(source, Source):
        rows = "; of a table take its rows: source=price_of.rows()" if isinstance(source, View | MethodType) else ""
        raise DefinitionError(f"{place}: source is {display_text(source)}, not a Source, such as source=orders{rows}")


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """Put the place before the error of a definition."""
    try:
        yield
    except DefinitionError as error:
        raise DefinitionError(f"{place}: {error}") from error
    except (TypeError, AttributeError) as error:
        # A value that no check expects, such as a list instead of a name.
        raise DefinitionError(f"{place}: {said_by(error)}") from error
