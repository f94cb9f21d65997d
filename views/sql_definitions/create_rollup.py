"""CREATE ROLLUP: the select list as keys over those of the parent and names of its measures, GROUP BY as keys and the window."""

from dataclasses import dataclass, field

from tandem.views.errors import listed
from tandem.views.sql_definitions.create_view import clauses_of, column_of
from tandem.views.sql_definitions.group_windows import window_of
from tandem.views.sql_definitions.statements import Fragment
from tandem.views.windows import AllTime, Window
from tandem.views.windows.placement import WINDOW_COLUMNS

_FORM = "CREATE ROLLUP daily AS SELECT city, n FROM hourly GROUP BY city, TUMBLE(window_start, INTERVAL '1 day')"


@dataclass
class RollupText:
    """A rollup: its parent's name, its keys as expressions over the parent's, the names of its measures, and its window.

    Without a window it has the parent's own.
    """

    name: str
    start: int
    parent: Fragment
    keys: dict[str, Fragment] = field(default_factory=dict)
    measures: list[str] = field(default_factory=list)
    window: Window | None = None
    doc: str = ""
    places: dict[str, int] = field(default_factory=dict)


def rollup_text(name: str, start: int, part: Fragment) -> RollupText:
    """A rollup's SELECT. Raises DefinitionError for what no rollup can mean."""
    clauses = clauses_of(part)
    if "WHERE" in clauses:
        raise clauses["WHERE"].fault("a rollup unites all states of its parent; a condition on events is a view's WHERE")
    parent = clauses.get("FROM")
    if parent is None or len(parent.words) != 1 or parent.name() is None:
        raise (parent or part).fault(f"a rollup is of one view by its name: {_FORM}")
    rollup = RollupText(name, start, parent, window=AllTime())
    columns: dict[str, Fragment] = {}
    for item in clauses["SELECT"].split(","):
        column, expression = column_of(item)
        if column.casefold() in map(str.casefold, columns):
            raise item.fault(f"two columns are called {column}")
        columns[column] = expression
    names = {column.casefold(): column for column in columns}
    group = clauses["GROUP"].split(",") if "GROUP" in clauses else []
    for item in group:
        column = ((item.name() if len(item.words) == 1 else None) or "").casefold()
        window = window_of(item)
        if (window is not None or column == WINDOW_COLUMNS[0]) and "window" in rollup.places:
            raise item.fault("a rollup has one window")
        if window is not None:
            rollup.window, time = window
            if time is None or time.name() != WINDOW_COLUMNS[0] or len(time.words) != 1:
                raise item.fault(f"the window of a rollup is of the parent's {WINDOW_COLUMNS[0]}: {_FORM}")
            rollup.places["window"] = item.start
        elif column == WINDOW_COLUMNS[0]:
            rollup.window, rollup.places["window"] = None, item.start
        elif column in names:
            rollup.keys[names[column]] = columns[names[column]]
            rollup.places[f"key {names[column]!r}"] = columns[names[column]].start
        else:
            raise item.fault(f"GROUP BY has {item.text}, which SELECT lacks; columns of SELECT: {listed(item.text, columns)}")
    rollup.measures = [column for column in columns if column not in (*rollup.keys, *WINDOW_COLUMNS)]
    for column in rollup.measures:
        if columns[column].text != column and columns[column].name() != column:
            what = "a rollup selects measures of its parent by their names, and keys that GROUP BY has"
            raise columns[column].fault(f"{what}: {_FORM}")
    if not rollup.measures:
        raise clauses["SELECT"].fault(f"rollup {name} has no measures; select some of its parent's")
    return rollup
