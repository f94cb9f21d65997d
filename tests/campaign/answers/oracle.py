"""The expected answers of the campaign's project: a few lines of plain Python over the records below a position.

Nothing of the platform is imported. A record is (partition, offset, value); a position maps partitions to their next offset.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

Row = dict[str, Any]
Position = Mapping[int, int]
SESSION_S: Final = 20
VISIT: Final = 99
"""What a sale amounts to at least that is part of a visit."""
LABELS: Final = ("window_state", "_exactness")
"""Columns that depend on micro-batches and clocks, and on nothing that was counted."""


class Record(NamedTuple):
    """One record of the log."""

    partition: int
    offset: int
    value: bytes


class Sale(NamedTuple):
    """One event."""

    id: int
    at: datetime
    shop: str
    amount: int


def parsed(value: bytes) -> Sale | None:
    """The event of a record, None where it is no event."""
    try:
        found = json.loads(value)
        return Sale(found["id"], datetime.fromisoformat(found["at"]), found["shop"], found["amount"])
    except (ValueError, KeyError, TypeError):
        return None


def sales(records: Iterable[Record], position: Position) -> list[Sale]:
    """The events below a position, each once however often the log has it."""
    below = (record for record in records if record.offset < position.get(record.partition, 0))
    found = {sale.id: sale for record in below if (sale := parsed(record.value)) is not None}
    return list(found.values())


def per_minute(found: Iterable[Sale], least: int) -> list[Row]:
    """Number and sum by shop and minute, of sales of at least that amount."""
    groups: dict[tuple[datetime, str], list[int]] = {}
    for sale in found:
        if sale.amount >= least:
            groups.setdefault((sale.at.replace(second=0, microsecond=0), sale.shop), []).append(sale.amount)
    minute = timedelta(minutes=1)
    return [
        {"shop": shop, **_window(at, at + minute), "n": len(amounts), "sum": sum(amounts)}
        for (at, shop), amounts in groups.items()
    ]


def per_shop(found: Iterable[Sale], _: int) -> list[Row]:
    """Number, sum, least and greatest by shop, of all sales."""
    groups: dict[str, list[int]] = {}
    for sale in found:
        groups.setdefault(sale.shop, []).append(sale.amount)
    return [
        {**_window(None, None), "shop": shop, "n": len(of), "sum": sum(of), "least": min(of), "most": max(of)}
        for shop, of in groups.items()
    ]


def per_visit(found: Iterable[Sale], _: int) -> list[Row]:
    """Number and sum by shop of large sales that follow each other within less than `SESSION_S` seconds."""
    shops: dict[str, list[Sale]] = {}
    for sale in found:
        if sale.amount >= VISIT:
            shops.setdefault(sale.shop, []).append(sale)
    gap = timedelta(seconds=SESSION_S)
    rows: list[Row] = []
    for shop, of in shops.items():
        of.sort(key=lambda sale: sale.at)
        begins = [n for n in range(len(of)) if n == 0 or of[n].at - of[n - 1].at >= gap]
        for begin, end in zip(begins, [*begins[1:], len(of)], strict=True):
            visit = of[begin:end]
            window = _window(visit[0].at, visit[-1].at + gap)
            rows.append({"shop": shop, **window, "n": len(visit), "sum": sum(sale.amount for sale in visit)})
    return rows


VIEWS: Final[Mapping[str, Callable[[Iterable[Sale], int], list[Row]]]] = {
    "per_minute": per_minute,
    "per_shop": per_shop,
    "per_visit": per_visit,
}
"""Each view of the project, by name."""


def difference(expected: Sequence[Row], answered: Sequence[Row]) -> str:
    """The first rows that only one side has; empty if both have the same rows, in any order."""
    wanted, got = _counted(expected), _counted(answered)
    if wanted == got and len(expected) == len(answered):
        return ""
    missing, extra = _only(wanted, got), _only(got, wanted)
    sizes = f"{len(expected)} rows expected, {len(answered)} answered"
    return f"{sizes}; missing or different: {missing[:5]}; answered instead: {extra[:5]}"


def _window(start: datetime | None, end: datetime | None) -> Row:
    return {"window_start": _text(start), "window_end": _text(end)}


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _counted(rows: Iterable[Row]) -> dict[str, int]:
    """Rows as text, without labels and bounds that an endless window does not have, and how often each is there."""
    found: dict[str, int] = {}
    for row in rows:
        told = {name: value for name, value in row.items() if name not in LABELS and value is not None}
        text = json.dumps(told, sort_keys=True)
        found[text] = found.get(text, 0) + 1
    return found


def _only(one: Mapping[str, int], other: Mapping[str, int]) -> list[str]:
    return sorted(text for text, times in one.items() if other.get(text) != times)
