"""Which windows of a view to fold again because versions of its tables changed below the cut.

The batch states of a view with look-ups are by the versions below the publication's cut of the table's source. A run counts the
tables first. What it then folds of new events looks up in the new versions; what earlier runs folded is folded again where these
differ from the versions that those runs had.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import EVENTS, log_table
from tandem.ledger.publish.batch_parts import BatchPart, Windows, files_with_later
from tandem.ledger.stored_states import stored
from tandem.views.composite.current_rows import VALID_FROM
from tandem.views.composite.table import looked_up, lookup_kinds
from tandem.views.instant import microseconds, time_of, utc_text
from tandem.views.kernel import kernel
from tandem.views.kernel.touched import Range
from tandem.views.source.source import Source
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.view import View, bind

Changed = Mapping[str, tuple[View, pa.Table, pa.Table]]
"""By name of a view of versions, that view, its versions, and the key and time of those that changed."""

_MOST_RANGES: Final = 3
"""Each range of windows is a Spark job, and one more part of the view."""


def versions_of(tables: Tables, view: View, address: str, parts: Sequence[BatchPart], uncommitted: Iterable[str]) -> pa.Table:
    """The versions in these parts of a view of versions, and in files that no commit names yet. Raises Unreadable."""
    place = Location.of(tables, address)
    states = [rows for file, later in files_with_later(tables, address, parts) for rows in stored(view, place, file.path, later)]
    states += [rows for path in uncommitted for rows in stored(view, place, path, ())]
    return kernel.versions(view, kernel.merge_states(view, states))


def changes(view: View, before: pa.Table, after: pa.Table) -> pa.Table:
    """The keys and times of versions that are in one of both, or differ."""
    names = [name for name in view.keys if name != VALID_FROM]
    key = ", ".join(map(quoted, (*names, VALID_FROM)))
    sql = f"SELECT DISTINCT {key} FROM ((FROM _a EXCEPT FROM _b) UNION ALL (FROM _b EXCEPT FROM _a))"
    return engine.query(sql, {"_a": after, "_b": before})


def span(tables: Tables, source: Source, decoder: str) -> Range | None:
    """The least and the greatest event time of a source's events, or times beyond; None if some files do not say."""
    times = [file.times for file in log_table(tables, tables.events(source.name, decoder), EVENTS, source.time_column).files]
    bounds = [both for both in times if both is not None]
    if source.prepare is not None or len(bounds) < len(times) or not bounds:
        return None
    return microseconds(min(low for low, _ in bounds)), microseconds(max(high for _, high in bounds))


def windows_again(
    views: Mapping[str, View], changed: Changed, times: Range | None, say: Callable[[str], None]
) -> dict[str, list[Windows] | None]:
    """By view the windows to fold again, at most a few ranges; None for all. `times` are those of the events."""
    again = {}
    for name, view in views.items():
        theirs = {table: changed[table] for table in looked_up(view)}
        again[name] = _windows(view, theirs, times) if any_late(theirs) else []
        if again[name] is None or again[name]:
            late = " and ".join(f"{rows.num_rows} rows of {table}" for table, (_, _, rows) in theirs.items() if rows.num_rows)
            say(f"{name}: {late} changed; folding again {_text(again[name])}")
    return again


def any_late(changed: Changed) -> bool:
    """Whether any versions changed."""
    return any(rows.num_rows for _, _, rows in changed.values())


def _windows(view: View, changed: Changed, times: Range | None) -> list[Windows] | None:
    slice_at, kinds = bind(view).placement.timing.slice_at, lookup_kinds(view)
    rejects = any(each.reject for each in view.lookup.values())  # rejections are counted per view, not per window
    if times is None or slice_at is None or rejects:
        return None
    first, last = times
    touched = list[Windows]()
    for name, (of, versions, rows) in changed.items():
        if kinds[name] == "now" and rows.num_rows:
            return None
        for start, end in kernel.touched(of, versions, rows, last, how=kinds[name]):
            if max(start, first) < end:
                touched.append((slice_at(time_of(max(start, first)))[0], slice_at(time_of(end - 1))[1]))
    return _few(sorted(touched))


def _few(windows: Sequence[Windows]) -> list[Windows]:
    """The union as few ranges: the narrowest gaps between them are filled."""
    united = list[Windows]()
    for start, end in windows:
        if united and start <= united[-1][1]:
            united[-1] = united[-1][0], max(united[-1][1], end)
        else:
            united.append((start, end))
    while len(united) > _MOST_RANGES:
        gaps = [(united[at + 1][0] - united[at][1], at) for at in range(len(united) - 1)]
        at = min(gaps)[1]
        united[at : at + 2] = [(united[at][0], united[at + 1][1])]
    return united


def _text(windows: Sequence[Windows] | None) -> str:
    """The ranges for a person."""
    ranges = ", ".join(f"from {utc_text(start)} to {utc_text(end)}" for start, end in windows or ())
    return f"windows {ranges}" if windows else "all windows"
