"""Where in definitions.sql an error is: the place of the key or measure that it names, and its line with a caret."""

import re
from typing import Final

from tandem.views.errors import DefinitionError
from tandem.views.sql_definitions.compile import Compiled
from tandem.views.sql_definitions.statements import line_and_column

_PART: Final = re.compile(r"view '(\w+)', (key '\w+'|measure '\w+'|window|where)")


def with_caret(error: DefinitionError, file: str, text: str, module: Compiled | None = None) -> DefinitionError:
    """The error with the line of the SQL that it is about and a caret; as it is if it is about another file."""
    message = str(error)
    place = re.match(rf"{re.escape(file)}:(\d+):(\d+): ", message)
    if place is None:
        return error
    line, column = int(place[1]), int(place[2])
    part = _PART.search(message)
    if module is not None and part is not None and part[2] in module.parts.get(part[1], {}):
        line, column = line_and_column(text, module.parts[part[1]][part[2]])
    shown = [*text.split("\n"), ""][line - 1]
    caret = " " * (column - 1) + "^"
    return DefinitionError(f"{file}:{line}:{column}: {message[place.end() :]}\n    {shown.rstrip()}\n    {caret}")
