"""Imports a project's modules in isolation from all other modules of the process.

* Two projects, or two releases of one, may each have a module `definitions` or `prices`. Each is imported from its own files
  only, and none stays in sys.modules, where the other would find it.
* The given files are the whole project; no folder is read. So a release that a worker imports from a table means what the
  project's folder meant.
"""

import importlib
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, cast

from tandem.views.errors import DefinitionError, listed
from tandem.views.lookup.file_table import MOST_BYTES, project_files
from tandem.views.project.python_code import run

if TYPE_CHECKING:
    from pathlib import Path

DEFINITIONS = "definitions"
SQL_DEFINITIONS: Final = "definitions_sql"
"""The module of a definitions.sql that is beside a definitions.py; alone, it is `definitions`."""

TABLE: Final = ".csv"
"""How the names of files end in which views look up."""

_IMPORTING = threading.RLock()  # sys.modules and sys.meta_path belong to the whole process
PLATFORM: Final = frozenset({"tandem"})
"""The platform's package. A project's module of the same name would hide it, or be hidden by it."""


class PlacedLines(Protocol):
    """The lines of a module that was compiled from another file."""

    def place(self, line: int) -> str:
        """The file, line and column that a line was compiled from."""


class ProjectLoader(MetaPathFinder, Loader):
    """Finds and runs modules in a project's files only, and stays the loader of the modules that it ran.

    `origin` names the place of the files in messages: a folder, or the name of a release. `tables` are the CSV files that the
    modules have read; those that `files` lacks are beside definitions.py in the `folder`.
    """

    def __init__(self, files: Mapping[str, bytes], origin: str) -> None:
        self.files = dict(files)
        self.origin = origin
        self.modules: dict[str, ModuleType] = {}
        self.tables: set[str] = set()
        self.folder: Path | None = None
        self.compiled: dict[str, PlacedLines] = {}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002  a module is found by its full name
        target: ModuleType | None = None,  # noqa: ARG002  nothing is ever reloaded
    ) -> ModuleSpec | None:
        """The spec of the module of this name; None if no file has it."""
        found = self.path_of(fullname)
        if found is None:
            return None
        return ModuleSpec(fullname, self, origin=self.filename(found), is_package=found.endswith("/__init__.py"))

    def create_module(self, spec: ModuleSpec) -> None:
        """None: Python creates the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's file."""
        self.modules[module.__name__] = module
        path = self.path_of(module.__name__)
        assert path is not None
        run(self.files[path], self.filename(path), module)

    def get_source(self, fullname: str) -> str:
        """The module's source text, for tracebacks."""
        path = self.path_of(fullname)
        if path is None:
            raise ImportError(f"no module {fullname!r} in {self.origin}", name=fullname)
        return self.files[path].decode()

    def path_of(self, fullname: str) -> str | None:
        """The file that holds the module of this name: `prices.py`, or `prices/__init__.py`."""
        base = fullname.replace(".", "/")
        return next((path for path in (f"{base}/__init__.py", f"{base}.py") if path in self.files), None)

    def table(self, path: str) -> bytes:
        """The content of a CSV file, which the project reaches by it. Raises DefinitionError if it has no such file."""
        beside = {} if self.folder is None else {file.name: file for file in self.folder.glob(f"*{TABLE}")}
        if path not in self.files and path in beside:
            if beside[path].stat().st_size > MOST_BYTES:
                raise DefinitionError(
                    f"Table.from_file: {path} is larger than {MOST_BYTES >> 20} MB; join it in SQL (docs/tables.md)"
                )
            self.files[path] = beside[path].read_bytes()
        if path not in self.files or not path.endswith(TABLE):
            raise DefinitionError(f"Table.from_file: no file {path!r} beside definitions.py; CSV files: {listed(path, beside)}")
        self.tables.add(path)
        return self.files[path]

    def place(self, path: str, line: int) -> str:
        """`file:line` of a line of code; of a module that was compiled, the place that it was compiled from."""
        return self.compiled[path].place(line) if path in self.compiled else f"{path}:{line}"

    def filename(self, path: str) -> str:
        """A file's name in tracebacks."""
        return f"{self.origin}/{path}"


def import_definitions(loader: ProjectLoader) -> list[ModuleType]:
    """Import the project's `definitions`, the module of its definitions.sql if it has both, and what they reach.

    Raises what the project's code raises.

    Leaves sys.modules, sys.path and the disk as they were. What the code prints goes to stderr.
    """
    roots = {path.split("/")[0].removesuffix(".py") for path in loader.files if path.endswith(".py")}
    for root in sorted(roots & (PLATFORM | sys.stdlib_module_names)):
        named = f"{root}.py" if f"{root}.py" in loader.files else f"{root}/"
        whose = "the package of Tandem" if root in PLATFORM else "a module of Python"
        raise DefinitionError(f"{named} has the name of {whose}; rename it, and the imports of {root!r} in the project")
    with _IMPORTING, _apart(roots), redirect_stdout(cast("IO[str]", _Aside(threading.get_ident(), sys.stderr, sys.stdout))):
        sys.meta_path.insert(0, loader)
        try:
            names = [DEFINITIONS, *([SQL_DEFINITIONS] if loader.path_of(SQL_DEFINITIONS) else [])]
            with project_files(loader.table):
                return [importlib.import_module(name) for name in names]
        finally:
            sys.meta_path.remove(loader)


@dataclass(frozen=True)
class _Aside:
    """A replacement of stdout, which the whole process shares: stderr for one thread, the earlier stdout for all others."""

    thread: int
    own: IO[str]
    others: IO[str]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own if threading.get_ident() == self.thread else self.others, name)


@contextmanager
def _apart(roots: set[str]) -> Iterator[None]:
    """Hide other modules with the names of the project's; afterwards remove the project's modules and restore the others."""
    hidden = _take_out(roots)
    try:
        yield
    finally:
        _take_out(roots)
        sys.modules.update(hidden)


def _take_out(roots: set[str]) -> dict[str, ModuleType]:
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] in roots}
