"""Changes of a view's rows from snapshot to snapshot.

A reader continues from the token of its last changes (serving/memory/changes_token.py). If the tables no longer have the view's
answers there, because compaction merged commits across it or a publication is not retained, `TokenGone` is raised: nothing is
skipped or repeated silently.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

from tandem.ledger.hot.chain import HotCommits, counting
from tandem.ledger.log.positions import distance, must_await
from tandem.ledger.publish import publications
from tandem.ledger.publish.batch_parts import BatchView
from tandem.ledger.publish.standing import StandingReleases
from tandem.serving.memory.answers import Answers
from tandem.serving.memory.cached_view import SECONDS, CachedView, OutgrowsMemory, ViewOrigin, followed, without_hot, without_rows
from tandem.serving.memory.changes_token import NO_WATERMARK, ChangesToken, TokenGone, token_of, watermark_number
from tandem.serving.memory.filed_view import differences_of, refuse_whole
from tandem.serving.memory.finals import finals
from tandem.serving.memory.pace import Pace, parse_when
from tandem.serving.memory.store import InMemory, Pinned, Store
from tandem.serving.read.outcome import Absent, ReadFailed, Value, answered
from tandem.serving.read.outputs import check_output, envelopes
from tandem.serving.read.provenance import Provenance
from tandem.serving.read.realtime_tail import cut_off
from tandem.serving.read.row_filter import RowFilter, RowsWanted, row_filter
from tandem.serving.read.selection import BadSelection
from tandem.serving.read.snapshot import batch_of, cut_of, has_view, tail_at
from tandem.views.composite.rollup import root
from tandem.views.composite.together import parts
from tandem.views.kernel.rows import to_rows
from tandem.views.source.watermark import later
from tandem.views.view import View

EVERYTHING: Final = RowsWanted()
Sight = tuple[View, InMemory]
"""A view as a snapshot has it."""
HEARTBEAT_S: Final = SECONDS / 3
"""After so long without an update a reader gets one without rows, if its token can move on."""
RENEW_S: Final = 86_400.0
"""After so long without an update a reader in this process gets one with the token that it has: stores may expire it."""


@dataclass(frozen=True)
class Changes:
    """The changes up to a snapshot: rows as they are there, and the keys and windows of deleted rows.

    `gone` has the keys and the window's start, or its number where windows follow the order of the log. Continue from `token`.
    An update without either moves the token on, now and then while nothing that the reader wants changes.

    `before` are the rows that changed or are gone as they were, without labels. Of the output append `rows` are of windows that
    became final, `late` are changed rows of windows that were final before, or their number if they are dropped. The `first`
    update of the outputs append and changes from no token is complete, also if it has no rows. `final`: of the output append.
    """

    rows: Value | Absent
    gone: pa.Table
    token: str
    before: pa.Table
    late: Value | Absent | int = 0
    first: bool = False
    final: bool = False

    @property
    def size(self) -> int:
        """The number of rows that it sends, with those that are gone."""
        late = 0 if isinstance(self.late, int) else self.late.total
        return self.rows.total + int(self.gone.num_rows) + late

    @property
    def empty(self) -> bool:
        """Whether it moves the token on and does nothing else."""
        return not self.size and not (isinstance(self.late, int) and self.late)

    def envelopes(self) -> list[dict[str, Any]]:
        """Each change as `op`, `before` and `after`, with values as JSON has them (tandem.serving.read.outputs).

        Raises BadSelection for an update of the output append, which has no rows before.
        """
        if self.final:
            raise BadSelection("output append has no rows before a change; use rows, late and gone, or output changes")
        return envelopes(self.gone.column_names, to_rows(self.rows.view, self.before), self.rows.rows(), first=self.first)

    @property
    def provenance(self) -> Provenance:
        """Where the rows come from."""
        return self.rows.provenance


@dataclass
class ViewFollower:
    """A reader that knows a view at one snapshot, and asks for what has changed; for one thread at a time.

    Create one with `watch`.
    """

    store: Store
    name: str
    only: RowFilter
    output: str
    late: str
    pace: Pace
    _before: CachedView
    _newest: Sight
    _known: tuple[str, CachedView] | None = None
    _watermark: int | None = None
    _first: bool = False
    _losses: int | None = None

    @property
    def quick(self) -> bool:
        """Whether the next look compares only what one step has changed: it computes no condition and reads not all rows."""
        simple = self.only.condition is None and self.output != "append" and self.pace.when.unit == "commit"
        return simple and not self._first

    @property
    def wait_s(self) -> float | None:
        """Seconds until a step is due, if no snapshot comes; None if none will be."""
        return None if self._newest[1].answers.held is self._before else self.pace.wait_s

    def look(self, pinned: Pinned, *, always: bool = False, renew: bool = False) -> Changes | None:
        """The changes since the last call that are due, None if none are. Raises TokenGone, ReadFailed, Unreadable.

        They are those up to the snapshot, or to the one of the last call if they were due before this one. With `always` an
        update without rows moves the token of a reader on, for whom nothing has changed for long: an old token expires.
        `renew` gives one also if the token stays the same.
        """
        past, newest = self._newest, _memory(self.store, pinned, self.name)
        answers, provenance = newest[1].answers, newest[1].provenance
        if answers.held.batch.fingerprint != self._before.batch.fingerprint:
            raise TokenGone(f"view {self.name!r} has another meaning since publication {provenance.publication}; scan it again")
        self._newest = newest
        self.pace.hear(provenance.newest)
        counts = distance(self._before.end, answers.held.end)
        due = "newest" if self._first else self.pace.ready(provenance.newest, counts)
        update = None if due is None else self._step(past if due == "past" else newest, always=always, renew=renew)
        if self.pace.due is None and self.pace.when.unit != "commit":
            if self._lacks(newest):
                self.pace.begin()
            elif update is None:
                update = self._step(newest, always=always, renew=renew)
        return update

    def steps_back(self, pinned: Pinned) -> bool:
        """Whether a snapshot lacks hot commits that the reader has, and that come back: not if the log may have lost records."""
        if self.store.hot is None:
            return False
        losses = self.store.hot.losses
        if self._losses is None:
            self._losses = losses
        if not must_await(self._before.end, _memory(self.store, pinned, self.name)[1].answers.held.end):
            return False
        if losses == self._losses:
            return True
        self._losses = losses
        return False

    def _lacks(self, newest: Sight) -> bool:
        """Whether the reader has to wait for a step: it lacks rows, or records where these are counted."""
        by_rows = self.pace.when.unit == "delay"
        return not self._compare(newest).empty if by_rows else newest[1].answers.held is not self._before

    def _step(self, to: Sight, *, always: bool, renew: bool) -> Changes | None:
        state, mark = to[1].answers.held, self._mark(to)
        moved = renew or (always and (self._known is None or self._known[1] is not state))
        if state is self._before and self._watermark == mark and not moved:
            return None
        update = self._compare(to)
        self._first, self._before, self._watermark = False, state, mark
        return None if update.empty and not (moved or update.first) else update

    def _mark(self, to: Sight) -> int | None:
        """The watermark of the final rows that the reader has after a step."""
        return later(self._watermark, to[1].answers.watermark) if self.output == "append" else None

    def _compare(self, to: Sight) -> Changes:
        """What the reader lacks of a snapshot."""
        view, memory = to
        before, after, first, mark = self._before, memory.answers.held, self._first, self._mark(to)
        refuse_whole(after, self.output, first=first)  # it may have outgrown memory since the last step
        token = str(replace(token_of(after), watermark=watermark_number(mark) if self.output == "append" else None))
        if self.output == "append":
            answers = replace(memory.answers, watermark=mark)
            lacks = finals(before, after, self._watermark, mark, self.only)
            late, rows = (self._answer(view, memory, answers, part) for part in (lacks.late, lacks.rows))
            dropped = late.total if self.late == "drop" else None
            past = lacks.gone if dropped is None else lacks.gone.slice(0, 0)
            return Changes(rows, past, token, past, late if dropped is None else dropped + lacks.gone.num_rows, first, final=True)
        if (each := differences_of(before, after, self.only)) is None:
            raise TokenGone(f"view {self.name!r} has outgrown memory, or fits in it again; scan it again")
        rows = self._answer(view, memory, memory.answers, each.changed)
        return Changes(rows, each.gone, token, self.only.columns(each.before), first=first)

    def _answer(self, view: View, memory: InMemory, answers: Answers, rows: pa.Table) -> Value | Absent:
        labelled = answers.labelled([rows])
        return answered(view, self.only.columns(labelled.table), labelled.touched, memory.provenance, total=labelled.total)

    def sent(self, found: Changes) -> None:
        """The reader gets these changes, those of the last `look`: it may come back with their token, or with the one before."""
        self.keep()
        self._known = found.token, self._before
        self.keep()

    def keep(self) -> None:
        """Keep what the reader knows for a while from now."""
        if self._known is not None:
            self.store.recent.put(*self._known)


def watch(store: Store, pinned: Pinned, name: str, since: ChangesToken | None, wanted: RowsWanted = EVERYTHING) -> ViewFollower:
    """A reader of the rows that it wants, at a token or at the snapshot.

    Raises TokenGone, UnknownView, BadSelection, ReadFailed, Unreadable.
    """
    newest = view, memory = _memory(store, pinned, name)
    held = memory.answers.held
    check_output(view, wanted.output, wanted.late)
    refuse_whole(held, wanted.output, first=since is None)
    pace = Pace(parse_when(wanted.when, bounded=wanted.simple), store.recent.clock)
    pace.hear(memory.provenance.newest)
    if pace.when.unit == "every":
        pace.begin()
    follower = partial(ViewFollower, store, name, row_filter(view, wanted), wanted.output, wanted.late, pace)
    if since is None:
        begins = wanted.output != "update"
        return follower(without_rows(held) if begins else held, newest, _first=begins)
    if wanted.output == "append" and since.watermark is None:
        raise BadSelection(
            "output append continues from a token of this output; leave the token out to begin with all final rows"
        )
    known = _at(store, view, held, since)
    was = None if wanted.output != "append" or since.watermark == NO_WATERMARK else since.watermark
    return follower(known, newest, (str(since), known), was)


def changes(store: Store, name: str, since: ChangesToken | None, wanted: RowsWanted = EVERYTHING) -> Iterator[Changes]:
    """The changes that `watch` reports from a token, or from now on, as snapshots come; ends when the store is closed.

    They do not step back: if hot commits are missing, as after their process was killed, the next update waits for commits.

    Raises TokenGone, UnknownView, BadSelection, ReadFailed, Unreadable.
    """
    pinned = reaching(store, name, since)
    return _changes_since(store, pinned, watch(store, pinned, name, since, wanted))


def reaching(store: Store, name: str, since: ChangesToken | None) -> Pinned:
    """The newest snapshot. If it does not reach a token, which another server may have sent, the tables are polled first.

    Raises UnknownView, ReadFailed.
    """
    pinned = store.pinned()
    end = pinned.snapshot.tail(pinned.view(name)).end
    if since is None or since.position.at_or_below(end):
        return pinned
    store.refresh()
    return store.pinned()


def _changes_since(store: Store, pinned: Pinned, watching: ViewFollower) -> Iterator[Changes]:
    clock = store.recent.clock
    sent = clock()
    try:
        while True:
            idle = clock() - sent
            always, renew = idle >= HEARTBEAT_S, idle >= RENEW_S
            found = None if watching.steps_back(pinned) else watching.look(pinned, always=always, renew=renew)
            if found is not None:
                watching.sent(found)
                yield found
                sent = clock()
            wait_s = watching.wait_s
            newer = store.after(pinned, HEARTBEAT_S if wait_s is None else min(HEARTBEAT_S, wait_s))
            if newer is None:
                return
            pinned = newer
    finally:
        watching.keep()


def _memory(store: Store, pinned: Pinned, name: str) -> Sight:
    view = pinned.view(name)
    memory = store.in_memory(pinned, view)
    while memory is None:
        if name in store.outgrown:
            return view, store.in_files(pinned, view)
        pinned = store.pinned()
        view = pinned.view(name)
        memory = store.in_memory(pinned, view)
    return view, memory


def _at(store: Store, view: View, held: CachedView, since: ChangesToken) -> CachedView:
    """The cached view at a token. Raises TokenGone, ReadFailed, Unreadable."""
    if replace(since, watermark=None) == token_of(held):
        return held
    known = store.recent.get(str(since))
    if known is not None and known.batch.fingerprint == held.batch.fingerprint:
        return known
    hot = _hot(held, since)
    batch = _batch(store, view, since) if since.fingerprint == held.batch.fingerprint else None
    found = tail_at(store.tables, since.release, view, since.cut)
    below = cut_off(found, since.end)
    if batch is None or found.problem is not None or below is None or hot is None:
        raise TokenGone(
            f"the token of view {view.name!r} has expired: a compaction, a merge of hot commits, their commit or the retention "
            "of publications has replaced what it names; scan the view again and continue from the token of that snapshot"
        )
    then = replace(below, end=hot[-1].end if hot else since.end, hot=hot)
    origin, base = ViewOrigin(store.tables, since.release, store.memory), replace(without_hot(held), end=held.cut, tail=())
    try:
        return followed(origin, base, batch, then)
    except OutgrowsMemory as error:
        raise ReadFailed(f"the rows of view {view.name!r} at the token need more than {store.memory} bytes of memory") from error


def _hot(held: CachedView, since: ChangesToken) -> HotCommits | None:
    """The hot commits that a token counts; None if the cached view has no such ones."""
    if since.hot is None:
        return ()
    epoch, end = since.hot
    number = counting(held.hot_commits, epoch, since.end, end) if held.release == since.release else None
    return None if number is None else held.hot_commits[:number]


def _batch(store: Store, view: View, since: ChangesToken) -> BatchView | None:
    """The batch view of a token, if a publication or the state of a standing release still has it whole."""
    standing = StandingReleases(store.tables)
    states = (row.state for row in standing.records())
    for each in reversed([*states, *standing.publications.history()]):
        batch = batch_of(each, view) if has_view(each, view) else None
        if batch is not None and (each.release, cut_of(each, view), batch.fingerprint, batch.version) == (
            since.release,
            since.cut,
            since.fingerprint,
            since.version,
        ):
            names = [part.name for part in parts(root(view))]
            return batch if publications.whole(store.tables, [each], views=names) else None
    return None
