"""A project: the folder in which a user defines sources, views, sinks and alerts.

It holds

* `tandem.toml`, which may be empty,
* `definitions.py`, which may end with the tuples SOURCES, VIEWS, SINKS and ALERTS, or `definitions.sql`, or both,
* the modules and packages that it imports.

A release stores the files that the import has reached, and fingerprints hash them; the import reads no other files. Of a
definitions.sql it stores the module that it was compiled to, which is what is imported later: a release means the same for every
version of the compiler.
"""

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

import msgspec

from tandem.views.alert import Alert
from tandem.views.composite.dated import Earlier, chain
from tandem.views.composite.rollup import Rollup, over_views, root
from tandem.views.composite.table import over_tables
from tandem.views.composite.together import over, parts, several
from tandem.views.decode.schema_ids import load_schemas, with_schemas
from tandem.views.errors import DefinitionError, TandemError
from tandem.views.project.earlier_files import EarlierFiles, earlier_files
from tandem.views.project.isolated_import import DEFINITIONS, ProjectLoader, import_definitions
from tandem.views.project.resolve import named_definitions
from tandem.views.project.source_location import STORED, check_imports, explained
from tandem.views.sinks.sink import Sink
from tandem.views.source.formats.schema_registry import FetchedSchemas
from tandem.views.source.source import Source
from tandem.views.start import StartPositions
from tandem.views.view import View, bind

SETTINGS_FILE = "tandem.toml"
DEFINITIONS_FILE = f"{DEFINITIONS}.py"
SQL_FILE: Final = f"{DEFINITIONS}.sql"
SCHEMAS_FILE: Final = "registry-schemas.json"
"""The name under which stored files also have the schemas that were fetched from registries, on their way to tasks."""

STARTS_FILE: Final = "starts.json"
"""The name under which stored files also have the positions of declared starts, by source."""

_LOADING: Final = threading.RLock()


@dataclass(frozen=True)
class Project:
    """The sources, views, sinks and alerts of a project, by name and in the order of its tuples.

    * `views`: those that events are folded into.
    * `united`: those over several sources, whose parts are among `views`.
    * `rollups`: those that unite the states of one of both. `every_view` has all that have answers: no parts.
    * `files`: tandem.toml, the Python files that the import has reached, by path within `folder`, and definitions.sql beside the
      module that it was compiled to.
    * `folder`: None for a project that was loaded from stored files.
    * `revision`: the revision of the files in version control, if it is known.
    """

    folder: Path | None
    sources: Mapping[str, Source]
    views: Mapping[str, View]
    files: Mapping[str, bytes] = field(repr=False)
    revision: str = field(default="", compare=False)
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    alerts: Mapping[str, Alert] = field(default_factory=dict)
    rollups: Mapping[str, Rollup] = field(default_factory=dict)
    united: Mapping[str, View] = field(default_factory=dict)

    @cached_property
    def every_view(self) -> Mapping[str, View]:
        """All views that have answers, by name: those over several sources after the others, then the rollups."""
        of_one = {name: view for name, view in self.views.items() if name not in self.wholes}
        return {**of_one, **self.united, **self.rollups}

    @cached_property
    def wholes(self) -> Mapping[str, View]:
        """By the name of a part the view over several sources that it is a part of."""
        return {part.name: view for view in self.united.values() for part in parts(view)}


def load(folder: Path | str) -> Project:
    """Import and check the project in a folder.

    Raises DefinitionError with file, line, the name of the definition, the value and what exists. Takes well under a
    second, needs no Java, and leaves neither modules nor files behind.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise TandemError(f"no project at {folder}: the folder does not exist", code="project-missing")
    files_of_definitions = (DEFINITIONS_FILE, SQL_FILE)
    for names, what in (((SETTINGS_FILE,), "it may be empty"), (files_of_definitions, "it holds the sources and views")):
        if not any((folder / name).is_file() for name in names):
            raise TandemError(f"no project at {folder}: it has no {' or '.join(names)} ({what})", code="project-missing")
    try:
        files = {SETTINGS_FILE: (folder / SETTINGS_FILE).read_bytes(), **_python_files(folder)}
        sql = (folder / SQL_FILE).read_bytes() if (folder / SQL_FILE).is_file() else None
    except OSError as error:
        raise TandemError(f"the project at {folder} cannot be read: {error.strerror}: {error.filename}") from error
    if sql is None:
        return _loaded(files, str(folder), folder)
    from tandem.views.project.sql_file import load_with_sql  # noqa: PLC0415 - sqlglot takes time to import

    return load_with_sql(files, sql, str(folder), lambda loader: _from_loader(loader, folder))


def load_files(files: Mapping[str, bytes]) -> Project:
    """Import and check a project from its stored files; a process does so once for equal files."""
    stored = tuple(sorted(files.items()))
    with _LOADING:  # Two concurrent loads would make two event types of one meaning, which are not the same class.
        return _load_stored(stored)


@lru_cache(maxsize=32)
def _load_stored(files: tuple[tuple[str, bytes], ...]) -> Project:
    digest = hashlib.sha256(repr(files).encode()).hexdigest()
    stored = dict(files)
    schemas, starts = (stored.pop(name, None) for name in (SCHEMAS_FILE, STARTS_FILE))
    separated = earlier_files(stored)
    project = _loaded(separated.newest, f"{STORED}{digest[:12]}>", None)
    if starts is not None:
        project = with_starts(project, load_starts(starts))
    project = with_earlier(project, replace(separated, newest=project.files))
    return project if schemas is None else _with_schemas(project, load_schemas(schemas))


def with_starts(project: Project, starts: Mapping[str, StartPositions]) -> Project:
    """The project whose sources of these names start there, which its files record."""
    if not starts:
        return project
    content = msgspec.json.encode({name: starts[name].to_json() for name in sorted(starts)})
    started = _with_sources(project, {name: replace(project.sources[name], start=start) for name, start in starts.items()})
    return replace(started, files={**started.files, STARTS_FILE: content})


def load_starts(content: bytes) -> dict[str, StartPositions]:
    """The starts by source of a file that `with_starts` made."""
    return {name: StartPositions.from_json(start) for name, start in msgspec.json.decode(content).items()}


def one_definition(name: str) -> str:
    """Why a view over several sources cannot count from a time on."""
    return (
        f"view {name!r} reads several sources, so it has one definition for all times; apply it to the whole history, "
        "without --from"
    )


def with_earlier(project: Project, history: EarlierFiles) -> Project:
    """The project, some of whose views have earlier definitions; its files are all of them. Raises DefinitionError."""
    if not history.views:
        return project
    views = dict(project.views)
    for name in history.views:
        if name in project.wholes:
            raise DefinitionError(one_definition(project.wholes[name].name))
    for rollup in project.rollups.values():
        if root(rollup).name in history.views:
            raise DefinitionError(
                f"view {rollup.name!r} unites states of view {root(rollup).name!r}, which would have several definitions; apply "
                "that view to the whole history, without --from, or take the rollup out"
            )
    for name, each in history.views.items():
        earlier = (Earlier(_load_stored(tuple(sorted(files.items()))).views[name], until) for files, until in each)
        views[name] = chain(views[name], tuple(earlier))
        bind(views[name])
    return replace(project, views=views, files=history.files)


def _with_schemas(project: Project, schemas: FetchedSchemas) -> Project:
    return _with_sources(project, {name: with_schemas(source, schemas) for name, source in project.sources.items()})


def _with_sources(project: Project, changed: Mapping[str, Source]) -> Project:
    sources = {**project.sources, **changed}
    became = {source: sources[name] for name, source in project.sources.items()}
    united = {name: over(view, became) for name, view in project.united.items()}
    views = {name: replace(view, source=sources[view.source.name]) for name, view in project.views.items()}
    tables = over_views(project.rollups.values(), {**views, **united})
    views |= {name: replace(view, lookup=over_tables(view.lookup, tables)) for name, view in views.items() if view.lookup}
    views |= _parts(united)
    rollups = over_views(project.rollups.values(), {**views, **united})
    return replace(project, sources=sources, views=views, united=united, rollups=rollups)


def _parts(united: Mapping[str, View]) -> dict[str, View]:
    return {part.name: part for view in united.values() for part in parts(view)}


def _python_files(folder: Path, prefix: str = "") -> dict[str, bytes]:
    """The Python files beside definitions.py and in packages below it, without tests."""
    found = {}
    for entry in sorted(folder.iterdir()):
        if entry.suffix == ".py" and entry.is_file() and not (entry.stem.startswith("test_") or entry.stem == "conftest"):
            found[f"{prefix}{entry.name}"] = entry.read_bytes()
        elif entry.name.isidentifier() and entry.name != "tests" and (entry / "__init__.py").is_file():
            found |= _python_files(entry, f"{prefix}{entry.name}/")
    return found


def _loaded(files: Mapping[str, bytes], origin: str, folder: Path | None) -> Project:
    return _from_loader(ProjectLoader(files, origin), folder)


def _from_loader(loader: ProjectLoader, folder: Path | None) -> Project:
    files, loader.folder = loader.files, folder
    try:
        modules = import_definitions(loader)
    except (Exception, SystemExit) as error:
        raise explained(loader, error) from error
    check_imports(loader)
    sources, views, sinks, alerts = named_definitions(loader, modules)
    reached = {path: files[path] for name in loader.modules if (path := loader.path_of(name)) is not None}
    return Project(
        folder=folder,
        sources={source.name: source for source in sources},
        views={part.name: part for view in views if not isinstance(view, Rollup) for part in parts(view)},
        united={view.name: view for view in views if several(view) and not isinstance(view, Rollup)},
        rollups={view.name: view for view in views if isinstance(view, Rollup)},
        sinks={sink.name: sink for sink in sinks},
        alerts={alert.name: alert for alert in alerts},
        files={
            SETTINGS_FILE: files.get(SETTINGS_FILE, b""),
            **dict(sorted(reached.items())),
            **{name: content for name, content in files.items() if name == SQL_FILE or name in loader.tables},
        },
    )
