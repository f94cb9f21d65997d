"""An answer computed again from the log: events up to the positions of a receipt, folded by the kernel in this process."""

from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.files.file_ranges import EVENTS
from tandem.ledger.files.rows_at import rows_at
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.log.positions import LOG_START, ranges
from tandem.ledger.publish.batch_parts import staying
from tandem.ledger.publish.releases import NoRelease, Releases
from tandem.serving.read.outcome import ReadFailed
from tandem.serving.read.selection import Selection, later, of_root, parse_keys, parse_time, select
from tandem.serving.why.part_log import AskedRow, PartLog, WorkBounds
from tandem.serving.why.receipt import Receipt, versions
from tandem.serving.why.row_groups import ALL_TIMES, Span
from tandem.serving.why.table_rows import rows_that_count, versions_at
from tandem.serving.why.topic_tail import LogTail
from tandem.views.arrow import arrays, python_values
from tandem.views.composite.current_rows import RowsView
from tandem.views.composite.rollup import root
from tandem.views.composite.together import parts
from tandem.views.counted import counted
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.kernel import kernel
from tandem.views.kernel.kernel import Partial
from tandem.views.kernel.rows import ordered
from tandem.views.project.project import load_files
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.view import View, bind, state_schema
from tandem.views.windows import Calendar, Hopping, Tumbling

MOST: Final = WorkBounds(5_000_000)
"""Of an answer that is folded again in this process."""


@dataclass(frozen=True)
class Checked:
    """A receipt computed again, and what differs or is gone, a sentence each; `notes` change nothing."""

    again: Receipt
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()


def check(tables: Tables, tail: LogTail, receipt: Receipt) -> Checked:
    """Compute the answer of a receipt again, from the definitions of its release and the log below its positions.

    Raises ReadFailed, which names what is gone: the release, its view, records.
    """
    view = _view(tables, receipt)
    now = versions()
    moved = [f"{name} was {was}, and is {now.get(name)}" for name, was in receipt.versions.items() if now.get(name) != was]
    mark = fingerprint(root(view))
    if fingerprint(view) != receipt.fingerprint:
        raise ReadFailed(
            f"view {view.name!r} of release {receipt.release} is computed differently now ({'; '.join(moved) or 'other code'}): "
            f"its fingerprint was {receipt.fingerprint}, and is {mark}; check the receipt with the versions that it names"
        )
    erased, problems = list[str](), list[str]()
    for source, before in receipt.erased.items():
        covered = ranges(LOG_START, receipt.end(source))
        since = Erasures(tables).count_within(source, covered) - before
        if since > 0:
            erased.append(f"{counted(since, 'record')} of source {source!r} below the receipt's position erased since")
    again = receipt.of(view, rows_again(tables, tail, view, receipt))
    if again.rows != receipt.rows:
        problems.append(f"{again.rows} rows are computed again; the receipt is of {receipt.rows}")
    if again.digest != receipt.digest:
        problems.append(f"the digest of the rows is {again.digest}; the receipt has {receipt.digest}")
    # Records that are gone are a problem of an answer that they were part of.
    return Checked(again, (*erased, *problems) if problems else (), (*moved, *(() if problems else erased)))


def _view(tables: Tables, receipt: Receipt) -> View:
    try:
        views = load_files(Releases(tables).load(receipt.release).files).every_view
    except NoRelease as error:
        raise ReadFailed(f"the code of the receipt is gone: {error}") from error
    except DefinitionError as error:
        raise ReadFailed(f"the definitions of release {receipt.release} cannot be used any more: {error}") from error
    if receipt.view not in views:
        raise ReadFailed(f"release {receipt.release} has no view {receipt.view!r}")
    return views[receipt.view]


def selection_of(view: View, receipt: Receipt) -> Selection:
    """The selection of the question."""
    asked = receipt.asked
    start, end, at = (None if text is None else parse_time(text) for text in (asked["from"], asked["to"], asked["at"]))
    keys = parse_keys(view, [name if value is None else f"{name}={_text(value)}" for name, value in asked["keys"].items()])
    return select(view, keys, (start, end), one=asked["one"], at=at)


def rows_again(tables: Tables, tail: LogTail, view: View, receipt: Receipt) -> pa.Table:
    """The rows of a receipt's question, as a reader arranges them from states. Raises ReadFailed, Unreadable."""
    return _Refold(tables, tail, view, receipt).rows()


@dataclass(frozen=True)
class _Refold:
    """The steps from the log to the rows of a receipt."""

    tables: Tables
    tail: LogTail
    view: View
    receipt: Receipt

    def rows(self) -> pa.Table:
        view, selection, first = self.view, selection_of(self.view, self.receipt), root(self.view)
        by_root = selection.at is not None or isinstance(view, RowsView)
        of, states = (first, of_root(view, selection)) if by_root else (view, selection)
        kept_from = self.receipt.kept_from
        partials = []
        for part in parts(first):
            for folded in self._partials(part, selection):
                rolled = states.filter(kernel.roll(of, folded.states))
                rolled = staying(rolled, None if kept_from is None else parse_time(kept_from))
                partials.append(replace(folded, states=rolled if of is view else kernel.roll(view, rolled)))
        merged = kernel.current(view, kernel.merge(view, partials))
        if isinstance(view, RowsView):
            rows = selection.rows(selection.of_keys(merged.states))
        elif selection.one and selection.start is not None and selection.end is not None:
            rows = kernel.arrange_as_one(view, merged.states, selection.start, selection.end)
        else:
            rows = selection.rows(kernel.arrange(view, merged.states))
        return kernel.present_arranged(view, ordered(view, rows))

    def _partials(self, part: View, selection: Selection) -> list[Partial]:
        """Those of a part of the view: below the cut, and from there on, where look-ups may have found other versions."""
        view, receipt, name = self.view, self.receipt, part.source.name
        sides = (True, receipt.layer == "batch")
        ends = [{table: receipt.end(table, at_the_cut=side) for table in receipt.positions} for side in sides]
        below, above = (versions_at(self.tables, self.tail, part, each, MOST) for each in ends)
        whole = isinstance(view, RowsView)
        schema = pa.schema([] if whole else [state_schema(view).field(key) for key in selection.keys])
        values = [python_values.array([selection.keys[field.name].as_py()], field.type) for field in schema]
        span = ALL_TIMES if whole else _span(view, selection)
        asked = AskedRow(part if whole else view, pa.Table.from_arrays(values, schema=schema), span, MOST)
        log = PartLog(self.tables, part, receipt.end(name, at_the_cut=True), receipt.end(name), below, above, self.tail)
        prepared = rows_that_count(log, asked)
        if not part.lookup:
            return [kernel.partial(part, prepared.events, EMPTY, prepared.failed)]
        mask = rows_at(prepared.events, EVENTS, ranges(LOG_START, log.cut))
        halves = ((mask, below), (~mask, above))
        return [kernel.partial(part, prepared.events.filter(arrays.booleans(side)), EMPTY, versions=of) for side, of in halves]


def _span(view: View, selection: Selection) -> Span:
    """The event times of the events of the selected windows; all times where that is not clear."""
    start, end, window = selection.start, selection.end, view.window
    if selection.one or bind(view).placement.in_order:
        return (start, end) if selection.one else ALL_TIMES
    match window:
        case Tumbling() | Hopping():
            return start, None if end is None else later(end, window.size)
        case Calendar():
            slice_at = bind(view).placement.timing.slice_at
            return start, None if end is None or slice_at is None else slice_at(end)[1]
    return ALL_TIMES


def _text(value: Any) -> str:
    """A key's value in JSON as `--key` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
