"""The log of answers (`serving.log_answers`): each row that a look-up was answered with, for `tandem points --check`.

Unlike the audit log it has keys and values, and no caller. Lines are made and written by the thread of the log.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tandem.infra.logs.batch import LogBatch
from tandem.infra.logs.files import LogFile, bounds, log_of
from tandem.infra.settings import Settings
from tandem.ledger.logged_answers import LoggedAnswer
from tandem.serving.http.answer_cache.cache import CachedAnswer
from tandem.serving.read.provenance import Provenance
from tandem.serving.read.touched_rows import split
from tandem.views.instant import utc_text
from tandem.views.kernel.rows import to_rows, writer
from tandem.views.view import View, answer_schema, bind
from tandem.views.windows import WINDOW_COLUMNS

PART: Final = "answers"
"""The log's name in `logs`."""


@dataclass(frozen=True)
class _GivenRow:
    """The row of one key and window; `row` is None if the view has none."""

    at: datetime
    view: View
    key: tuple[Any, ...]
    start: datetime | None
    row: dict[str, Any] | None
    measures: tuple[str, ...]
    provenance: Provenance


@dataclass(frozen=True)
class _GivenRows:
    """All rows of an answer."""

    at: datetime
    answer: CachedAnswer
    measures: tuple[str, ...]


@dataclass(frozen=True)
class AnswerLog:
    """Adds rows to the log of a server whose settings want it."""

    now: Callable[[], datetime]
    add: Callable[[_GivenRow | _GivenRows], object]

    def row(
        self,
        view: View,
        place: tuple[tuple[Any, ...], datetime | None],
        row: dict[str, Any] | None,
        measures: tuple[str, ...],
        provenance: Provenance,
    ) -> None:
        """Log the row at a place, which is a key and the start of a window, or its absence."""
        self.add(_GivenRow(self.now(), view, *place, row, measures, provenance))

    def rows(self, answer: CachedAnswer, measures: tuple[str, ...]) -> None:
        """Log the rows of an answer, each with its key and window. Windows that have no start in time are left out."""
        if not bind(answer.view).placement.in_order:
            self.add(_GivenRows(self.now(), answer, measures))


@contextmanager
def answer_log(settings: Settings, *, now: Callable[[], datetime]) -> Iterator[AnswerLog | None]:
    """The log of answers, if the settings want one; all lines are in the file once the context has ended."""
    if not settings.serving.log_answers:
        yield None
        return
    batch = LogBatch[_GivenRow | _GivenRows](LogFile(log_of(settings.folder, PART), bounds(settings.logs), mode=0o600), _lines)
    try:
        yield AnswerLog(now, batch.add)
    finally:
        batch.close()


def _lines(answered: _GivenRow | _GivenRows) -> str:
    if isinstance(answered, _GivenRow):
        schema = answer_schema(answered.view)
        key = {name: writer(schema.field(name))(value) for name, value in zip(answered.view.keys, answered.key, strict=True)}
        window = None if answered.start is None else utc_text(answered.start)
        row = None if answered.row is None else {name: answered.row[name] for name in answered.measures}
        return LoggedAnswer(key=key, window=window, row=row, **_origin(answered.at, answered.view, answered.provenance)).line()
    answer, view = answered.answer, answered.answer.view
    table, _ = split(answer.table)
    origin, lines = _origin(answered.at, view, answer.provenance), []
    for row in to_rows(view, table.select([*view.keys, *WINDOW_COLUMNS, *answered.measures])):
        key, measures = ({name: row[name] for name in names} for names in (view.keys, answered.measures))
        lines.append(LoggedAnswer(key=key, window=row[WINDOW_COLUMNS[0]], row=measures, **origin).line())
    return "\n".join(lines)


def _origin(at: datetime, view: View, provenance: Provenance) -> dict[str, Any]:
    positions = {name: each.realtime for name, each in provenance.sources.items()} or {view.source.name: provenance.realtime}
    return {
        "at": utc_text(at),
        "view": view.name,
        "layer": provenance.layer,
        "publication": provenance.publication,
        "release": provenance.release,
        "live": provenance.live,
        "fingerprint": provenance.fingerprint,
        "positions": {name: position.to_json() for name, position in positions.items()},
        "kept_from": None if provenance.kept_from is None else utc_text(provenance.kept_from),
    }
