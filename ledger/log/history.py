"""The history that answers of a source stand on: rows of tables before its topics, and records that it keeps no longer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tandem.ledger.log.adoptions import TABLES, Adoptions
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.log.positions import Position
from tandem.views.counted import counted
from tandem.views.exactness import span
from tandem.views.instant import utc_text
from tandem.views.source.source import Source


@dataclass(frozen=True)
class TableRows:
    """The number of rows of a table that are the log's first part, and its newest adopted version; empty for a folder."""

    table: str
    version: str
    rows: int


@dataclass(frozen=True)
class RecordExpiry:
    """Records that a source keeps no longer (`Source(keep=...)`): the number of offsets, and the greatest event time.

    `until` is None if none of them had an event, `keep` if the definition has none any more.
    """

    offsets: int
    until: datetime | None
    keep: timedelta | None = None

    def to_json(self) -> dict[str, Any]:
        """The expiry as `query --json` prints it."""
        return {
            "offsets": self.offsets,
            "until": None if self.until is None else utc_text(self.until),
            "keep_s": None if self.keep is None else self.keep.total_seconds(),
        }


@dataclass(frozen=True)
class SourceHistory:
    """What a source's answers stand on beside its topics.

    Args:
        tables: whose rows are the first part of the log.
        log_from: of the topics only events from this time on count, of the tables those before it (`history_until`).
        expiry: the records that are gone, if any.
    """

    tables: tuple[TableRows, ...] = ()
    log_from: datetime | None = None
    expiry: RecordExpiry | None = None

    def of(self, source: Source) -> "SourceHistory | None":
        """The same with what the definition of the source says; None if nothing differs from the source's topics."""
        expiry = None if self.expiry is None else replace(self.expiry, keep=source.keep)
        history = replace(self, log_from=source.history_until, expiry=expiry)
        return None if history == SourceHistory() else history

    def to_json(self) -> dict[str, Any]:
        """The history as `query --json` prints it."""
        return {
            "tables": [{"table": each.table, "version": each.version, "rows": each.rows} for each in self.tables],
            "log_from": None if self.log_from is None else utc_text(self.log_from),
            "expiry": None if self.expiry is None else self.expiry.to_json(),
        }


def history_lines(history: Mapping[str, Any], source: str) -> Iterator[str]:
    """The document of a source's history in lines for a person."""
    for each in history["tables"]:
        version = f" version {each['version']}" if each["version"] else ""
        yield f"history begins with {counted(each['rows'], 'row')} of table {each['table']}{version}"
    if history["log_from"]:
        yield f"of the topics of {source} events from {history['log_from']} on count, of tables those before"
    if expiry := history["expiry"]:
        rule = "" if expiry["keep_s"] is None else f" by its keep of {span(timedelta(seconds=expiry['keep_s']))}"
        until = f", with events until {expiry['until']}" if expiry["until"] else ""
        yield f"{counted(expiry['offsets'], 'offset')} of {source} expired{rule}{until}; no window that stays needs them"


def load_history(erasures: Erasures, source: str, below: Position, at: datetime | None = None) -> SourceHistory:
    """The history of a source below a position: what had expired at a time, or until now. Raises Unreadable.

    So what an answer names follows from its publication, however late it is read.
    """
    rows = dict[str, TableRows]()
    if any(topic in TABLES for topic, _ in below):
        for adoption in Adoptions(erasures.tables, source).every():
            if adoption.end.at_or_below(below):
                before = rows[adoption.table].rows if adoption.table in rows else 0
                rows[adoption.table] = TableRows(adoption.table, adoption.version, before + adoption.rows)
    gone = [each for each in erasures.of(source) if each.stage == "expired" and (at is None or each.at <= at)]
    until = max((each.until for each in gone if each.until is not None), default=None)
    expiry = RecordExpiry(sum(each.ranges.length for each in gone), until) if gone else None
    return SourceHistory(tuple(rows.values()), expiry=expiry)
