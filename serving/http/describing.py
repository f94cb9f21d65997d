"""What there is to say of views and sources themselves: definition, columns, how far they have come."""

from dataclasses import asdict

import pyarrow as pa

from serving.http.models import Column, SourceState, ViewDescribed, ViewState, ViewSummary
from serving.provenance import written
from serving.snapshot import Snapshot
from views.measures.count import Count
from views.measures.filtered import Filtered
from views.measures.measure import Measure
from views.measures.total import Total
from views.view import View, answer_schema, approximations


def summary(view: View) -> ViewSummary:
    """A view in short."""
    return ViewSummary(name=view.name, doc=view.doc, keys=list(view.keys), window=str(view.window), measures=list(view.measures))


def described(view: View, snapshot: Snapshot) -> ViewDescribed:
    """All of a view."""
    return ViewDescribed(
        **summary(view).model_dump(),
        source=view.source.name,
        where=view.where,
        columns=[_column(view, field) for field in answer_schema(view)],
        state=state(view, snapshot),
    )


def state(view: View, snapshot: Snapshot) -> ViewState:
    """How far a view has come."""
    live, tail = snapshot.publication.views[view.name], snapshot.tails[view.source.name]
    return ViewState(
        publication=snapshot.publication.number,
        release=snapshot.publication.release,
        fingerprint=live.fingerprint,
        batch_version=live.version,
        cut=tail.cut.to_json(),
        realtime=tail.end.to_json(),
        newest=_newest(snapshot, view.source.name),
        watermark=written(snapshot.watermark(view.source.name)),
        problem=tail.problem,
    )


def source_state(name: str, snapshot: Snapshot) -> SourceState:
    """How far a source has come."""
    tail = snapshot.tails[name]
    return SourceState(
        cut=tail.cut.to_json(),
        realtime=tail.end.to_json(),
        newest=_newest(snapshot, name),
        watermark=written(snapshot.watermark(name)),
        behind_bridge=tail.behind_bridge,
        problem=tail.problem,
    )


def _adds(measure: Measure) -> bool:
    """Whether a measure of all is the sum of those of parts."""
    return isinstance(measure.measure if isinstance(measure, Filtered) else measure, Count | Total)


def _newest(snapshot: Snapshot, source: str) -> str | None:
    newest = snapshot.newest(source)
    return None if newest is None else newest.isoformat().replace("+00:00", "Z")


def _column(view: View, field: pa.Field) -> Column:
    told = {name.decode(): text.decode() for name, text in (field.metadata or {}).items()}
    part = "key" if field.name in view.keys else "measure" if field.name in view.measures else "window"
    made = view.keys.get(field.name) or (str(view.measures[field.name]) if field.name in view.measures else None)
    approximate = approximations(view).get(field.name)
    return Column(
        name=field.name,
        part=part,
        kind=told["kind"],
        unit=told.get("unit"),
        doc=told.get("doc"),
        definition=made,
        adds=field.name in view.measures and _adds(view.measures[field.name]),
        approximate=None if approximate is None else asdict(approximate),
    )
