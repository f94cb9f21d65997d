"""Publications: which release, batch versions and cuts are live, one numbered record after another.

A publication is derived from its parent, the publication that was live when it was made, and is added only if no other was added
in between. That, and the three checks of `publish`, keep a reader from counting an event twice or not at all.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import Any, Final, Literal

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.journal import Journal, JournalSnapshot, Row
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.batch_parts import BatchView, versions
from tandem.ledger.realtime.commit_files import spans_of
from tandem.ledger.realtime.tiling import boundary, chain
from tandem.views.errors import TandemError
from tandem.views.source.watermark import Maxima, maxima_from_json, maxima_to_json

Kind = Literal["initial", "recompute", "apply", "promote", "rollback", "resume"]
"""apply: a state that is not live yet (tandem.ledger.publish.standing). After a rollback recomputes wait for a resume."""


class NotPublishable(TandemError, code="publication-refused"):
    """A publication that would break what readers rely on; nothing was published."""


def no_publication() -> TandemError:
    """The error of a command that needs what is published, before the first publication."""
    return TandemError("nothing is published yet; run `tandem archive` and `tandem recompute` first", code="nothing-published")


@dataclass(frozen=True)
class Publication:
    """One numbered record: what is live from now on, until the next publication.

    Args:
        parent: the number of the publication that was live before; 0 for number 1.
        cuts: by source.
        views: the batch views, by name.
        counts: of the events below the cut, by source.
        rejected: of the events below the cut, by view name and reason.
        newest: the append time of the newest event below the cut, by source.
        maxima: the partitions' newest times below the cut, by source.
        watermarks: at the cut, by source, in microseconds since 1970.
        after_final: by view name, how many events arrived for windows that answers of this fingerprint had labelled final.
        repaired: by source, how many duplicates the speed layer had counted as events since the cut before; without a source
            for which this cannot be computed (tandem.ledger.publish.label_counts).
        gaps: the names of the gaps that the batch views were built without.
        why: the reason that the operator gave.
    """

    number: int
    parent: int
    at: datetime
    by: str
    kind: Kind
    release: int
    cuts: Mapping[str, Position] = field(hash=False)
    views: Mapping[str, BatchView] = field(hash=False)
    counts: Mapping[str, Counts] = field(default_factory=dict, hash=False)
    rejected: Mapping[str, Mapping[str, int]] = field(default_factory=dict, hash=False)
    newest: Mapping[str, datetime] = field(default_factory=dict, hash=False)
    maxima: Mapping[str, Maxima] = field(default_factory=dict, hash=False)
    watermarks: Mapping[str, int] = field(default_factory=dict, hash=False)
    after_final: Mapping[str, int] = field(default_factory=dict, hash=False)
    repaired: Mapping[str, int] = field(default_factory=dict, hash=False)
    gaps: tuple[str, ...] = ()
    why: str = ""

    def cut(self, source: str) -> Position:
        """The source's cut; the log's start if the publication has no cut of the source."""
        return self.cuts.get(source, LOG_START)


SCHEMA: Final = pa.schema(
    [
        ("parent", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("by", pa.string()),
        ("kind", pa.string()),
        ("release", pa.int64()),
        ("cuts", pa.string()),
        ("views", pa.string()),
        ("counts", pa.string()),
        ("rejected", pa.string()),
        ("newest", pa.string()),
        ("maxima", pa.string()),
        ("watermarks", pa.string()),
        ("after_final", pa.string()),
        ("repaired", pa.string()),
        ("gaps", pa.string()),
        ("why", pa.string()),
    ]
)
"""Columns that hold mappings are JSON."""


@dataclass
class Publications:
    """The publications of a project. Their journal is opened once: a read polls for what is new."""

    tables: Tables
    journal: Journal = field(init=False, repr=False)
    _newest: tuple[JournalSnapshot, Publication | None] | None = field(default=None, init=False, repr=False)
    _known: list[Publication] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        self.journal = Journal(self.tables, self.tables.control("publications"), SCHEMA)

    def latest(self) -> Publication | None:
        """The live publication, the same object if nothing is new; None before the first. Reads one file. Raises Unreadable."""
        snapshot = self.journal.read()
        if self._newest is None or self._newest[0] is not snapshot:
            row = snapshot.newest()
            self._newest = snapshot, None if row is None else from_row(row)
        return self._newest[1]

    def history(self) -> list[Publication]:
        """All publications, oldest first. Raises Unreadable."""
        live = self.latest()
        if live is not None and self._known and live.number == self._known[-1].number + 1:
            self._known.append(live)
        elif live != (self._known[-1] if self._known else None):
            self._known = [from_row(row) for row in self.journal.read().rows()]
        return [*self._known]

    def publish(self, derive: Callable[[Publication | None], Publication | None]) -> Publication | None:
        """Publish what `derive` returns for the live publication, which becomes its parent; nothing if it returns None.

        `derive` is called again if another publication was added first. It returns all but `number` and `parent`, which are
        overwritten, and raises if what its run started from is no longer live.

        Raises NotPublishable if a cut would move back within the release, or is not a committed boundary of the release's chain:
        readers could not tile the log from it. A rollback may move a cut back if the realtime tables still cover the range up to
        the current answer.
        """

        def row(snapshot: JournalSnapshot) -> Row | None:
            newest = snapshot.newest()
            parent = None if newest is None else from_row(newest)
            candidate = derive(parent)
            if candidate is None:
                return None
            candidate = replace(candidate, parent=parent.number if parent else 0)
            before = _last_of_release(snapshot, candidate.release)
            if candidate.kind == "rollback":
                _refuse_lost_tail(self.tables, candidate, before)
            else:
                _refuse_step_back(candidate, before)
            # Before the first publication no release has commits. If some have, another process published: the journal says so.
            if candidate.kind != "initial":
                _refuse_untileable(self.tables, candidate)
            return to_row(candidate)

        stored = self.journal.add(row)
        return None if stored is None else from_row(stored)

    def initial(self, *, release: int, sources: Iterable[str], views: Mapping[str, str], by: str, at: datetime) -> Publication:
        """Publish number 1, an empty batch with its cut at the log's start, unless one exists. Returns the live publication.

        `views` has fingerprints by name. Of several callers at once, the later ones return the first one's publication.
        """
        first = Publication(
            number=1,
            parent=0,
            at=at,
            by=by,
            kind="initial",
            release=release,
            cuts=dict.fromkeys(sources, LOG_START),
            views={name: BatchView(fingerprint) for name, fingerprint in views.items()},
        )
        published = self.publish(lambda parent: first if parent is None else None) or self.latest()
        assert published is not None  # `publish` returns None only if a parent exists, and publications are never deleted
        return published

    def claim(self) -> None:
        """Fence what runs before this one would still add, if this process has the lease of the views' tables.

        Call it before reading what a run is decided on. Raises Fenced, Unwritable.
        """
        self.journal.claim()


def retained(publications: Iterable[Publication], *, keep: int, since: datetime) -> list[Publication]:
    """The publications that can still be read: the newest `keep`, and those that were live at `since` or later.

    A publication that is no longer retained never is again, unless the policy changes. See `whole` for those that are still
    complete then, and `standing.Followed.retained`.
    """
    ordered = sorted(publications, key=lambda publication: publication.number)
    recent = [replaced for replaced, successor in pairwise(ordered) if successor.at > since]
    kept = {publication.number: publication for publication in (*recent, *ordered[-keep:])}
    return [kept[number] for number in sorted(kept)]


def whole(tables: Tables, publications: Iterable[Publication], *, views: Collection[str] | None = None) -> list[Publication]:
    """The publications whose batch views are complete, all or these. Reads the Delta log of each view's table once.

    Raises Unreadable.
    """
    stored = cache(lambda address: versions(tables, address))
    return [
        each
        for each in publications
        if all(
            stored(view.address(tables, name)).get(part.version, 0) == part.rows
            for name, view in each.views.items()
            if views is None or name in views
            for part in view.log_parts
        )
    ]


def live_at(publications: Iterable[Publication], time: datetime) -> Publication | None:
    """The publication that was live at a time; None before the first."""
    return max((each for each in publications if each.at <= time), key=lambda each: each.number, default=None)


def refuse_stale(parent: Publication | None, started_from: Publication, *, extends: Iterable[str] = ()) -> None:
    """For a run's `derive`: raise NotPublishable unless the release that the run started from is still live.

    Views that the run `extends` must also still have the same batch versions.
    """
    if parent is None or parent.release != started_from.release:
        live = "none" if parent is None else parent.release
        raise NotPublishable(f"the run started from release {started_from.release}, but release {live} is live now; run again")
    for view in extends:
        if parent.views.get(view) != started_from.views.get(view):
            raise NotPublishable(
                f"the run extends view {view!r} of publication {started_from.number}, "
                f"but publication {parent.number} has another version of it; run again"
            )


def _refuse_step_back(candidate: Publication, before: Publication | None) -> None:
    for source, cut in before.cuts.items() if before else ():
        if not cut.at_or_below(candidate.cut(source)):
            raise NotPublishable(
                f"the cut of source {source!r} would move back from {cut} to {candidate.cut(source)} within release "
                f"{candidate.release}; it must be at or above {cut}"
            )


def _refuse_lost_tail(tables: Tables, candidate: Publication, before: Publication | None) -> None:
    for source, cut in before.cuts.items() if before else ():
        spans = spans_of(tables, candidate.release, source)
        back = candidate.cut(source)
        problem = chain(spans, back).problem
        if problem or not chain(spans, cut).end.at_or_below(chain(spans, back).end):
            why = problem or "a batch run advanced past events that the speed layer had not processed"
            raise NotPublishable(
                f"the cut of source {source!r} cannot move back from {cut} to {back}: the realtime views do not cover the range "
                f"from there to the answers' position ({why})"
            )


def _refuse_untileable(tables: Tables, candidate: Publication) -> None:
    for source, cut in candidate.cuts.items():
        spans = spans_of(tables, candidate.release, source)
        problem = chain(spans, cut).problem
        if not problem and not boundary(spans, cut):
            problem = "no commit of the release's realtime table starts or ends there"
        if problem:
            raise NotPublishable(f"invalid cut {cut} for source {source!r} of release {candidate.release}: {problem}")


def _last_of_release(snapshot: JournalSnapshot, release: int) -> Publication | None:
    newest = snapshot.newest()
    if newest is None or newest["release"] == release:
        return None if newest is None else from_row(newest)
    return next((from_row(row) for row in reversed(snapshot.rows()) if row["release"] == release), None)


def to_row(publication: Publication) -> Row:
    """The publication as a row of the journal, without its number."""

    def each(mapping: Mapping[str, Any], convert: Callable[[Any], Any]) -> str:
        return json.dumps({name: convert(value) for name, value in sorted(mapping.items())})

    return {
        "parent": publication.parent,
        "at": publication.at,
        "by": publication.by,
        "kind": publication.kind,
        "release": publication.release,
        "cuts": each(publication.cuts, Position.to_json),
        "views": each(publication.views, BatchView.to_json),
        "counts": each(publication.counts, Counts.to_json),
        "rejected": each(publication.rejected, dict),
        "newest": each(publication.newest, datetime.isoformat),
        "maxima": each(publication.maxima, maxima_to_json),
        "watermarks": each(publication.watermarks, int),
        "after_final": each(publication.after_final, int),
        "repaired": each(publication.repaired, int),
        "gaps": json.dumps(publication.gaps),
        "why": publication.why,
    }


def from_row(row: Row) -> Publication:
    """Inverse of `to_row`."""

    def each(column: str, convert: Callable[[Any], Any]) -> dict[str, Any]:
        return {name: convert(value) for name, value in json.loads(row[column]).items()}

    return Publication(
        number=row["number"],
        parent=row["parent"],
        at=row["at"],
        by=row["by"],
        kind=row["kind"],
        release=row["release"],
        cuts=each("cuts", Position.from_json),
        views=each("views", BatchView.from_json),
        counts=each("counts", Counts.from_json),
        rejected=each("rejected", dict),
        newest=each("newest", datetime.fromisoformat),
        maxima=each("maxima", maxima_from_json),
        watermarks=each("watermarks", int),
        after_final=each("after_final", int),
        repaired=each("repaired", int),
        gaps=tuple(json.loads(row["gaps"])),
        why=row["why"],
    )
