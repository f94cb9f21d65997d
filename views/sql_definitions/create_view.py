"""CREATE VIEW: the select list as keys and measures, GROUP BY as the keys' names and the window, WHERE as the view's filter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tandem.views.errors import listed
from tandem.views.measures.derived import derived
from tandem.views.measures.measure import Measure
from tandem.views.sql_definitions.aggregates import NAMES, calls_of_measures, measure_of
from tandem.views.sql_definitions.group_windows import window_of
from tandem.views.sql_definitions.statements import Fragment, is_name, is_word
from tandem.views.windows import AllTime, Window
from tandem.views.windows.placement import WINDOW_COLUMNS

_REFUSED: Final = {
    "HAVING": "HAVING chooses among answers; ask for them with a condition, in `tandem sql`",
    "QUALIFY": "QUALIFY chooses among answers; ask for them with a condition, in `tandem sql`",
    "ORDER": "a view has no order; `tandem query --order-by` and `tandem sql` have",
    "LIMIT": "a view has all rows; `tandem query --limit` and `tandem sql` limit an answer",
    "EMIT": "answers change with every micro-batch, and labels say what is final: leave EMIT out",
    "WINDOW": "a window is an item of GROUP BY, such as TUMBLE(at, INTERVAL '1 hour')",
    "UNION": "a view is one SELECT over one source",
}
_JOINS: Final = ("JOIN", "LEFT", "RIGHT", "INNER", "FULL", "CROSS", "LATERAL", "ASOF", "NATURAL")


@dataclass
class ViewText:
    """A view: its source's name, and its keys, window, measures and filter, each with its place."""

    name: str
    start: int
    source: Fragment
    keys: dict[str, Fragment] = field(default_factory=dict)
    window: Window = field(default_factory=AllTime)
    time: Fragment | None = None
    measures: dict[str, Measure] = field(default_factory=dict)
    where: Fragment | None = None
    places: dict[str, int] = field(default_factory=dict)
    docs: dict[str, str] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    tolerances: dict[str, float] = field(default_factory=dict)
    expect: dict[str, str] = field(default_factory=dict)
    doc: str = ""

    @property
    def columns(self) -> list[str]:
        """The keys and measures."""
        return [*self.keys, *self.measures]


class _Item(NamedTuple):
    """An item of the select list: its name, the expression, the measure that it is, and its measures' calls inside."""

    name: str
    expression: Fragment
    measure: Measure | None
    inside: list[Fragment]


def view_text(name: str, start: int, part: Fragment) -> ViewText:
    """A view's SELECT. Raises DefinitionError for what no view can mean."""
    clauses = clauses_of(part)
    if "FROM" not in clauses:
        raise part.fault("FROM is missing: a view reads one source")
    source = clauses["FROM"]
    if len(source.words) != 1 or source.name() is None:
        words = source.outside(lambda word: is_word(word, ",") or word.text.upper() in _JOINS)
        place = source.cut(words[0]) if words else source.cut(1) if source.name() is not None else source
        raise place.fault("a view reads one source by its name, without joins, subqueries and other names")
    view = ViewText(name, start, source)
    items = _items(clauses["SELECT"])
    group = clauses.get("GROUP")
    grouped = _group(view, items, [] if group is None else group.split(","))
    view.where = clauses.get("WHERE")
    if view.where is not None:
        view.places["where"] = view.where.start
    for item in items:
        if item.name in grouped:
            view.keys[item.name] = item.expression
            view.places[f"key {item.name!r}"] = item.expression.start
        elif item.measure is not None:
            view.measures[item.name] = item.measure
            view.places[f"measure {item.name!r}"] = item.expression.start
    _derive(view, items)
    if not view.measures:
        raise clauses["SELECT"].fault(f"view {name} has no measures; for example count(*) AS n")
    return view


def clauses_of(part: Fragment) -> dict[str, Fragment]:
    """The parts of a SELECT by the words that begin them, in their order."""
    if not part.begins("SELECT"):
        raise part.fault("a view is CREATE VIEW name AS SELECT ...")
    if part.begins("DISTINCT", at=1):
        raise part.cut(1).fault("DISTINCT is not possible: each combination of keys has one row")
    marks = [number for number in part.outside(is_name) if _begins_clause(part, number)]
    chosen: dict[str, Fragment] = {}
    for first, last in zip([0, *marks], [*marks, len(part.words)], strict=True):
        word = part.words[first].text.upper()
        if word in _REFUSED:
            raise part.cut(first).fault(_REFUSED[word])
        if word in chosen or (word == "WHERE" and "GROUP" in chosen) or (word not in {"FROM", "SELECT"} and "FROM" not in chosen):
            raise part.cut(first).fault(f"{word} is out of place: the order is SELECT, FROM, WHERE, GROUP BY")
        chosen[word] = part.cut(first + (2 if word == "GROUP" else 1), last)
        if not chosen[word].words:
            raise part.cut(first).fault(f"nothing follows {word}")
    return chosen


def _begins_clause(part: Fragment, number: int) -> bool:
    """Whether the word of this number begins a clause: fields may have the names of words that SQL does not reserve."""
    if any(part.begins(word, at=number) for word in ("GROUP", "ORDER")):
        return part.begins("BY", at=number + 1)
    if part.begins("FROM", at=number):
        return not part.begins("DISTINCT", at=number - 1)
    after_from = any(part.begins("FROM", at=before) for before in range(number - 1))
    return part.begins("WHERE", at=number) or (after_from and any(part.begins(word, at=number) for word in _REFUSED))


def _items(part: Fragment) -> list[_Item]:
    items: list[_Item] = []
    for item in part.split(","):
        name, expression = column_of(item)
        if name.casefold() in (other.name.casefold() for other in items):
            raise item.fault(f"two columns are called {name}")
        items.append(_Item(name, expression, measure_of(expression), calls_of_measures(expression)))
    return [item for item in items if not (item.name in WINDOW_COLUMNS and item.expression.text == item.name)]


def column_of(part: Fragment) -> tuple[str, Fragment]:
    """The name and the expression of `expression AS name`, or of a field alone."""
    if not part.words:
        raise part.fault("an expression is missing")
    if part.text == "*":
        raise part.fault("a star names no columns; list the keys and the measures")
    marks = part.outside(lambda word: is_word(word, "AS"))
    if marks:
        name, rest = part.name(marks[-1] + 1), part.cut(marks[-1] + 2)
        if name is None or rest.words or not marks[-1]:
            raise part.cut(marks[-1]).fault("AS is followed by the column's name, and nothing else")
        return name, part.cut(0, marks[-1])
    if len(part.words) == 1 and (name := part.name()) is not None:
        return name, part
    raise part.fault(f"the column has no name: {part.text} AS name")


def _group(view: ViewText, items: Sequence[_Item], group: Sequence[Fragment]) -> set[str]:
    """The names of the columns that GROUP BY names; its window goes to the view. Raises DefinitionError."""
    names = {item.name.casefold(): item for item in items}
    texts = {_plain(item.expression): item for item in items}
    chosen: set[str] = set()
    for part in group:
        if not part.words:
            raise part.fault("an item of GROUP BY is missing")
        if (window := window_of(part)) is not None:
            if "window" in view.places:
                raise part.fault("a view has one window")
            view.window, view.time = window
            view.places["window"] = part.start
            continue
        item = names.get(name.casefold()) if len(part.words) == 1 and (name := part.name()) else None
        item = item or texts.get(_plain(part))
        if item is None and part.text.isdigit() and 0 < int(part.text) <= len(items):
            item = items[int(part.text) - 1]
        if item is None:
            if part.text in WINDOW_COLUMNS:
                raise part.fault(
                    f"{part.text} is in every answer; GROUP BY has the window itself, such as TUMBLE(at, INTERVAL '1 hour')"
                )
            have = listed(part.text, [item.name for item in items])
            raise part.fault(f"GROUP BY has {part.text}, which SELECT lacks; add it there; columns of SELECT: {have}")
        if item.measure is not None or item.inside:
            raise part.fault(f"{item.name} is a measure, and events are grouped before they are measured")
        chosen.add(item.name)
    return chosen


def _derive(view: ViewText, items: Sequence[_Item]) -> None:
    """Add the measures that are expressions over others; in the order of the select list."""
    measures: dict[str, Measure] = {}
    names = {item.name.casefold() for item in items if item.name not in view.keys}
    for item in items:
        if item.name in view.keys:
            continue
        if item.measure is not None:
            measures[item.name] = item.measure
            continue
        read = {word.text.casefold() for word in item.expression.words if is_name(word)}
        if not item.inside and not read & (names - {item.name.casefold()}):
            if (called := item.expression.call()) is not None and called[0].lower() not in NAMES:
                _refuse_item(item, called[0])
            _refuse_item(item)
        measures[item.name] = derived(_over_answers(item, view.measures))
        view.places[f"measure {item.name!r}"] = item.expression.start
    view.measures = measures


def _refuse_item(item: _Item, called: str = "") -> None:
    more = f"; if {called} should be a measure, a measure of your own is used in definitions.py" if called else ""
    raise item.expression.fault(f"{item.expression.text} is neither a measure nor in GROUP BY{more}")


def _over_answers(item: _Item, measures: Mapping[str, Measure]) -> str:
    """The expression with the names of measures in place of the aggregates in it. Raises DefinitionError if one has no name."""
    text, base = item.expression.text, item.expression.start
    for call in reversed(item.inside):
        measure = measure_of(call)
        name = next((name for name, other in measures.items() if other == measure), None)
        if name is None:
            raise call.fault(f"{call.text} has no name here; select it, too, as in {call.text} AS n")
        start = call.start - base
        text = f"{text[:start]}{name}{text[start + len(call.text) :]}"
    return text


def _plain(part: Fragment) -> str:
    """The words of an expression without spaces and comments, to compare with another."""
    return " ".join(word.text if not is_name(word) else word.text.casefold() for word in part.words)
