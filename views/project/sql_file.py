"""A project's definitions.sql: compiled to a module, loaded with the project, and its errors shown with a caret."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from tandem.views.errors import DefinitionError
from tandem.views.project.isolated_import import DEFINITIONS, SQL_DEFINITIONS, ProjectLoader
from tandem.views.project.project import SQL_FILE, Project
from tandem.views.sql_definitions.compile import HEADING, Compiled, compile_sql
from tandem.views.sql_definitions.statements import line_and_column

_DEFINITIONS_FILE: Final = f"{DEFINITIONS}.py"
_PART: Final = re.compile(r"view '(\w+)', (key '\w+'|measure '\w+'|window|where)")


def load_with_sql(files: Mapping[str, bytes], sql: bytes, origin: str, load: Callable[[ProjectLoader], Project]) -> Project:
    """The project of these files and a definitions.sql. Raises DefinitionError with the place in the SQL."""
    try:
        text = sql.decode()
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{SQL_FILE}: byte {error.start} is not UTF-8: {error.reason}") from error
    # The files of a release have the compiled module, too; it is compiled again.
    others = {path: content for path, content in files.items() if not content.startswith(HEADING.encode())}
    beside = _DEFINITIONS_FILE in others
    path = f"{SQL_DEFINITIONS}.py" if beside else _DEFINITIONS_FILE
    if path in others:
        raise DefinitionError(f"{path}: {SQL_FILE} is compiled to a module of this name; rename the file")
    module: Compiled | None = None
    try:
        module = compile_sql(text, SQL_FILE, beside=beside)
        loader = ProjectLoader({**others, SQL_FILE: sql, path: module.text.encode()}, origin)
        loader.compiled[path] = module
        project = load(loader)
        _check_times(project, module)
    except DefinitionError as error:
        raise _with_caret(error, text, module) from error
    return project


def _check_times(project: Project, module: Compiled) -> None:
    """Raise DefinitionError for a window over another time than the event time of its source."""
    for name, (time, start) in module.times.items():
        source = project.views[name].source
        if time.replace('"', "").casefold() != source.event_time.casefold():
            raise module.script.fault(
                f"view {name!r}: {time} is not the event time of source {source.name!r}, which is {source.event_time}", start
            )


def _with_caret(error: DefinitionError, text: str, module: Compiled | None) -> DefinitionError:
    """The error with the line of the SQL that it is about and a caret; as it is if it is about another file."""
    message = str(error)
    place = re.match(rf"{re.escape(SQL_FILE)}:(\d+):(\d+): ", message)
    if place is None:
        return error
    line, column = int(place[1]), int(place[2])
    part = _PART.search(message)
    if module is not None and part is not None and part[2] in module.parts.get(part[1], {}):
        line, column = line_and_column(text, module.parts[part[1]][part[2]])
    shown = [*text.split("\n"), ""][line - 1]
    caret = " " * (column - 1) + "^"
    return DefinitionError(f"{SQL_FILE}:{line}:{column}: {message[place.end() :]}\n    {shown.rstrip()}\n    {caret}")
