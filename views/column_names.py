"""The names of a view's columns: they differ, whatever the case of their letters."""

from collections.abc import Iterable

from tandem.views.errors import DefinitionError
from tandem.views.measures.measure import State


def check_columns(place: str, reserved: Iterable[str], columns: list[str]) -> None:
    """Raise DefinitionError for two columns of one name; Delta, Spark and DuckDB ignore case."""
    seen: dict[str, str] = {name: name for name in reserved}
    for column in columns:
        if (other := seen.get(column.casefold())) is not None:
            spelt = "" if other == column else f", as {other!r}"
            raise DefinitionError(
                f"{place}: the name {column!r} is already used{spelt}; keys, measures and their states need different names"
            )
        seen[column.casefold()] = column


def state_columns(measure: str, states: tuple[State, ...]) -> tuple[str, ...]:
    """The names of the columns of a measure's states: its own, or that with the suffix of each of several."""
    return (measure,) if len(states) == 1 else tuple(f"{measure}__{state.suffix}" for state in states)
