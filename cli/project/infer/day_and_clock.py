"""A day and a time of day in two columns of a file, which are one time."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tandem.cli.project.infer.field_type import FieldType, are_clocks, of_day_and_clock

_NAMES: Final = ("at", "day_and_clock")


@dataclass(frozen=True)
class DayAndClock:
    """The two columns, and the column that joins them."""

    name: str
    parts: tuple[str, str]
    type: FieldType

    def join_in(self, columns: Mapping[str, FieldType]) -> dict[str, FieldType]:
        """The columns, with this one in place of the two."""
        day, clock = self.parts
        return {
            self.name if name == day else name: self.type if name == day else of for name, of in columns.items() if name != clock
        }


def day_and_clock(
    columns: Mapping[str, FieldType], rows: Sequence[Mapping[str, str]], nulls: Collection[str], zone: str | None
) -> DayAndClock | None:
    """The first day and the first time of day; None if the file has no such two, or a column with both."""
    if any(of.kind == "time" for of in columns.values()):
        return None
    day = next((name for name, of in columns.items() if of.kind == "date"), None)
    clock = next((name for name, of in columns.items() if of.annotation == "str" and _has_clocks(name, rows, nulls)), None)
    free = next((name for name in _NAMES if name not in {column.casefold() for column in columns}), None)
    if day is None or clock is None or free is None:
        return None
    pairs = {(row[day], row[clock]) for row in rows}
    whole = {pair for pair in pairs if not {*pair} & {*nulls}}
    of = of_day_and_clock((" ".join(pair) for pair in whole), zone)
    if of.kind != "time":
        return None
    note = "; ".join([f"the columns {day} and {clock}", *([of.note] if of.note else [])])
    return DayAndClock(free, (day, clock), replace(of, note=note, missing=len(whole) < len(pairs)))


def _has_clocks(name: str, rows: Sequence[Mapping[str, str]], nulls: Collection[str]) -> bool:
    texts = {row[name] for row in rows} - {*nulls}
    return bool(texts) and are_clocks(texts)
