"""Documents about views and sources: definition, columns, position."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from tandem.ledger.united_positions import plain
from tandem.serving.access.rights import Principal
from tandem.serving.http.models.rows import ReasonDocument
from tandem.serving.http.models.status import (
    ArchiveStateDocument,
    ColumnDocument,
    EventFieldDocument,
    GapStateDocument,
    HotTailDocument,
    LogStateDocument,
    OpenTransactionDocument,
    PartDocument,
    RejectedTailDocument,
    SinkDocument,
    SourceDescribedDocument,
    SourceFreshnessDocument,
    SourceStateDocument,
    StandingReleaseDocument,
    UntilLossStateDocument,
    ViewDescribedDocument,
    ViewStateDocument,
    ViewSummaryDocument,
)
from tandem.serving.http.protocol.problem import WITHHELD
from tandem.serving.http.queries.permitted import open_to, read_of
from tandem.serving.read.provenance import written
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.status.freshness import SourceFreshness
from tandem.serving.status.open_transactions import BlockedPartition
from tandem.serving.status.part_state import PartState
from tandem.serving.status.pipeline import PipelineLog, StoredTables
from tandem.serving.status.rejected_tails import ArchiveTail, tail_of_rejects
from tandem.serving.status.sinks import SinkState
from tandem.serving.status.sources import gap_document
from tandem.serving.status.topics import topics_document
from tandem.views.exactness import of_measures
from tandem.views.instant import utc_text
from tandem.views.measures.count import Count
from tandem.views.measures.filtered import bare
from tandem.views.measures.measure import Measure
from tandem.views.measures.total import Total
from tandem.views.project.project import Project
from tandem.views.source.decoder import decoder_name
from tandem.views.source.event import Field, event_fields
from tandem.views.source.record_filter import ByHeader
from tandem.views.source.source import IDEMPOTENCY_KEY, Source
from tandem.views.source.united_source import names_of
from tandem.views.source.value_types import field_kind
from tandem.views.view import View, answer_schema


def summary(view: View) -> ViewSummaryDocument:
    """The summary of a view."""
    return ViewSummaryDocument(
        name=view.name, doc=view.doc, keys=list(view.keys), window=str(view.window), measures=list(view.measures)
    )


def described(view: View, snapshot: Snapshot, *, bound: bool) -> ViewDescribedDocument:
    """The description of a view; a caller that is `bound` to rows gets no positions."""
    return ViewDescribedDocument(
        **summary(view).model_dump(),
        source=view.source.name,
        where=view.where,
        columns=[_column(view, field) for field in answer_schema(view)],
        state=state(view, snapshot, bound=bound),
    )


def state(view: View, snapshot: Snapshot, *, bound: bool) -> ViewStateDocument:
    """The position of a view; a caller that is `bound` to rows gets no positions, and no reason of a problem, which may name
    some.
    """
    snapshot = snapshot.of(view)
    live, tail = snapshot.batch(view), snapshot.tail(view)
    return ViewStateDocument(
        source=view.source.name,
        publication=snapshot.publication.number,
        release=snapshot.publication.release,
        fingerprint=live.fingerprint,
        batch_version=live.version,
        cut=None if bound else plain(tail.cut, view.source).to_json(),
        realtime=None if bound else plain(tail.end, view.source).to_json(),
        newest=_newest(snapshot, view.source.name),
        watermark=written(snapshot.watermark(view.source.name)),
        problem=WITHHELD if bound and tail.problem else tail.problem,
    )


def source_state(
    source: Source, snapshot: Snapshot, log: PipelineLog, stored: StoredTables, *, now: datetime, restricted: bool
) -> SourceStateDocument:
    """The position of a source; a `restricted` caller does not learn which machines do not answer, nor names of views."""
    name = source.name
    tail, end, archive, left = snapshot.tails[name], log.end(name), stored.archives.get(name), log.until_loss.get(name)
    hot = log.hot.get(name)
    if hot is not None and restricted:
        hot = replace(hot, aside=hot.aside and "the server's log has the reason", views_aside={})
    return SourceStateDocument(
        **topics_document(stored.topics.get(name, {}), source, end),
        cut=tail.cut.to_json(),
        realtime=tail.end.to_json(),
        newest=_newest(snapshot, name),
        watermark=written(snapshot.watermark(name)),
        behind_bridge=tail.behind_bridge,
        identities_since=None if tail.identities_since is None else utc_text(tail.identities_since),
        problem=tail.problem,
        log=LogStateDocument(
            end=None if end.position is None else end.position.to_json(),
            lag=None if tail.problem else end.lag(tail.end),
            problem="the broker does not answer" if end.problem and restricted else end.problem,
            open_transactions=[_open_transaction(each, now=now, restricted=restricted) for each in end.blocked],
        ),
        archive=None if archive is None else ArchiveStateDocument(end=archive.end.to_json(), records=archive.records),
        rejected=_rejects_of(name, tail, stored, restricted=restricted),
        until_loss=None if left is None else UntilLossStateDocument.model_validate(left.to_json()),
        hot=None if hot is None else HotTailDocument.model_validate(hot.to_json()),
        gaps=[GapStateDocument.model_validate(gap_document(gap, accepted=done)) for gap, done in snapshot.gaps_of(name).items()],
    )


def _open_transaction(blocked: BlockedPartition, *, now: datetime, restricted: bool) -> OpenTransactionDocument:
    hidden = {"transactional_id": None} if restricted else {}
    return OpenTransactionDocument(**blocked.to_json() | hidden, warning=None if restricted else blocked.warning(now))


def _rejects_of(source: str, tail: RealtimeTail, stored: StoredTables, *, restricted: bool) -> RejectedTailDocument | None:
    """The rejects of a source that has fallen silent; a `restricted` caller gets no sample, which quotes a record."""
    rejects = tail_of_rejects(tail, stored.newest.get(source, ArchiveTail()))
    if rejects is None:
        return None
    return RejectedTailDocument.model_validate((replace(rejects, sample=None) if restricted else rejects).to_json(source))


def bound_source_state(name: str, snapshot: Snapshot) -> SourceStateDocument:
    """The state of a source for a caller that is restricted to rows: freshness and gaps, without position and counts."""
    tail = snapshot.tails[name]
    return SourceStateDocument(
        topics=None,
        topic_pattern=None,
        cut=None,
        realtime=None,
        newest=_newest(snapshot, name),
        watermark=written(snapshot.watermark(name)),
        behind_bridge=None,
        identities_since=None if tail.identities_since is None else utc_text(tail.identities_since),
        problem=WITHHELD if tail.problem else None,
        log=None,
        archive=None,
        rejected=None,
        until_loss=None,
        hot=None,
        gaps=[
            GapStateDocument(
                name=gap.name,
                offsets=None,
                reason=None,
                accepted=done,
                warning=None if done else f"gap {gap.name} is not accepted",
            )
            for gap, done in snapshot.gaps_of(name).items()
        ],
    )


def _adds(measure: Measure) -> bool:
    """Whether values of the measure can be added over rows."""
    return isinstance(bare(measure), Count | Total)


def parts(states: Iterable[PartState], *, restricted: bool) -> list[PartDocument]:
    """The parts of the installation. A caller that is restricted gets no reasons, which may name a source or a broker."""
    shown = (replace(one, why=None) if restricted else one for one in states)
    return [PartDocument.model_validate(one.to_json()) for one in shown]


def standing(stored: StoredTables, sources: Collection[str], *, restricted: bool, bound: bool) -> list[StandingReleaseDocument]:
    """The releases beside the live one, of these sources. A caller that is restricted gets no reasons, which may name others.

    A caller that is `bound` to rows is not told how many offsets they are behind.
    """
    return [
        StandingReleaseDocument(
            release=one.release,
            stage=one.stage,
            why=None if restricted else one.why,
            lag=None if bound else {name: lag for name, lag in one.lag.items() if name in sources},
        )
        for one in stored.standing
    ]


def sinks(states: Iterable[SinkState], views: Collection[str], *, restricted: bool, bound: bool) -> list[SinkDocument]:
    """The sinks of these views. A restricted caller gets no errors, which may name addresses.

    A caller that is `bound` to rows gets no positions and counts, either.
    """
    counts = ("lag", "lag_s", "token", "position", "at", "steps", "rows", "gone", "comparisons", "errors")
    hidden = dict.fromkeys((*(("error", "failed", "problem") if restricted else ()), *(counts if bound else ())))
    return [SinkDocument.model_validate(each.to_json() | hidden) for each in states if each.view in views]


def freshness(source_freshness: SourceFreshness | None) -> SourceFreshnessDocument:
    """The samples of a source; none if the server has not polled it yet."""
    samples = () if source_freshness is None else source_freshness.samples
    return SourceFreshnessDocument(
        at=[utc_text(sample.at) for sample in samples],
        lag=[sample.lag for sample in samples],
        age_s=[sample.age_s for sample in samples],
    )


def source(project: Project, of: Source, principal: Principal) -> SourceDescribedDocument:
    """What the records of a source are, and what the principal may do with it."""
    return SourceDescribedDocument(
        name=of.name,
        topics=list(of.topics),
        topic_pattern=None if of.pattern is None else of.pattern.text,
        decoder=decoder_name(of.decoder),
        event=of.event.__name__,
        fields=[_field(one) for one in event_fields(of.event)],
        event_time=of.event_time,
        identity=list(of.identity),
        identity_spans=of.identity_spans if of.identity else None,
        idempotency_key=IDEMPOTENCY_KEY in of.identity,
        dedup_window_s=of.dedup_window.total_seconds(),
        key=of.key,
        max_events_per_record=of.max_events_per_record,
        kinds=list(of.record_filter.values) if isinstance(of.record_filter, ByHeader) else None,
        views=[view.name for view in read_of(project, principal) if of.name in names_of(view.source.name)],
        ingest=of.name in open_to(project, principal),
    )


def _field(field: Field) -> EventFieldDocument:
    return EventFieldDocument(
        name=field.name,
        key=field.key,
        kind=str(field_kind(field.arrow)),
        required=field.required,
        null=field.optional,
        unit=field.unit or None,
        doc=field.doc or None,
    )


def _newest(snapshot: Snapshot, source: str) -> str | None:
    newest = snapshot.newest(source)
    return None if newest is None else utc_text(newest)


def _column(view: View, field: pa.Field) -> ColumnDocument:
    told = {name.decode(): text.decode() for name, text in (field.metadata or {}).items()}
    part = "key" if field.name in view.keys else "measure" if field.name in view.measures else "window"
    made = view.keys.get(field.name) or (str(view.measures[field.name]) if field.name in view.measures else None)
    inexact = of_measures(view).get(field.name)
    return ColumnDocument(
        name=field.name,
        part=part,
        kind=told["kind"],
        unit=told.get("unit"),
        doc=told.get("doc"),
        definition=made,
        adds=field.name in view.measures and _adds(view.measures[field.name]),
        exactness=None if inexact is None else ReasonDocument.model_validate(inexact[0].to_json()),
    )
