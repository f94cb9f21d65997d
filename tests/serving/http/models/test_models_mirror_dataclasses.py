"""A document of the API has every field of the dataclass that it shows, of the same type, unless this table says otherwise.

A field that is added to such a dataclass, removed from it or changed in type fails here until the table, and with it the API,
is changed on purpose.
"""

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from importlib import import_module
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel

import tandem.infra.kafka
from tandem.ledger.hot.report import HotTailState
from tandem.ledger.log import gaps, history, retention
from tandem.ledger.log.positions import Position
from tandem.ledger.publish import audits, publications
from tandem.serving.access import rights
from tandem.serving.http import commands
from tandem.serving.http.models import alerts, operations, rows, status
from tandem.serving.read import provenance
from tandem.serving.sinks.alerts import episodes
from tandem.serving.status import part_state, releases, sinks, sources
from tandem.views import condition_result, exactness
from tandem.views.source import event
from tandem.views.verify import release_diff
from tandem.views.view import View

MODULES: Final = ("alerts", "openapi", "operations", "rows", "status")


@dataclass(frozen=True)
class Mirror:
    """`model` shows `of`.

    `named` has, by field of the model, the field or property of the dataclass that it shows under another name. `unshown` are
    fields of the dataclass that the model leaves out, `added` fields of the model that come from elsewhere. `hidden` are fields
    that are null for some callers. `as_` has the types that a field is written as where that is not the usual one.
    """

    model: type[BaseModel]
    of: type
    named: Mapping[str, str] = field(default_factory=dict)
    unshown: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    as_: Mapping[str, Any] = field(default_factory=dict)


MIRRORS: Final = (
    Mirror(rows.ReasonDocument, exactness.Reason, {"reason": "name"}, unshown=frozenset({"figures", "counted"})),
    Mirror(rows.SaidDocument, exactness.Exactness, unshown=frozenset({"every", "marked", "columns", "whole"})),
    Mirror(rows.ExactnessDocument, exactness.Exactness, unshown=frozenset({"whole"})),
    Mirror(
        rows.ProvenanceDocument,
        provenance.Provenance,
        unshown=frozenset({"accepted", "rollup_of"}),  # it is in `gaps`; a caller may not know the parent
        hidden=frozenset({"cut", "realtime", "hot", "start", "history", "after_final", "ahead", "rejected"}),
        as_={
            "watermark": str | None,
            "gaps": list[dict[str, Any]],
            "start": rows.StartDocument | None,
            "kept_from": str | None,
            "history": rows.SourceHistoryDocument | None,
            "sources": dict[str, rows.SourceProvenanceDocument] | None,  # of several sources, and of callers who see all rows
            "tables": dict[str, rows.TableProvenanceDocument] | None,  # of look-ups, and of callers who see all rows
        },
    ),
    Mirror(rows.TableProvenanceDocument, provenance.TableProvenance),
    Mirror(
        rows.SourceProvenanceDocument,
        provenance.SourceProvenance,
        as_={
            "watermark": str | None,
            "start": rows.StartDocument | None,
            "history": rows.SourceHistoryDocument | None,
        },
    ),
    Mirror(rows.TableRowsDocument, history.TableRows),
    Mirror(
        rows.RecordExpiryDocument, history.RecordExpiry, {"keep_s": "keep"}, as_={"until": str | None, "keep_s": float | None}
    ),
    Mirror(
        rows.SourceHistoryDocument,
        history.SourceHistory,
        as_={
            "tables": list[rows.TableRowsDocument],
            "log_from": str | None,
            "expiry": rows.RecordExpiryDocument | None,
        },
    ),
    Mirror(
        status.ViewSummaryDocument,
        View,
        unshown=frozenset({"source", "where", "tolerances", "docs", "units", "keep", "lookup", "expect"}),
        as_={"keys": list[str], "window": str, "measures": list[str]},
    ),
    Mirror(
        status.LogStateDocument,
        sources.LogEnd,
        {"end": "position", "open_transactions": "blocked"},
        added=frozenset({"lag"}),
        unshown=frozenset({"topics"}),
        as_={"open_transactions": list[status.OpenTransactionDocument]},
    ),
    Mirror(status.ArchiveStateDocument, sources.ArchivePosition, unshown=frozenset({"counts"})),
    Mirror(status.UntilLossStateDocument, retention.UntilLoss, unshown=frozenset({"short", "expired"})),
    Mirror(status.HotTailDocument, HotTailState),
    Mirror(
        status.GapStateDocument,
        gaps.Gap,
        {"warning": "way_on"},
        unshown=frozenset({"source", "ranges", "at"}),
        added=frozenset({"offsets", "accepted"}),
        hidden=frozenset({"reason", "warning"}),
    ),
    Mirror(status.StandingReleaseDocument, releases.StandingRelease, hidden=frozenset({"lag"})),
    Mirror(
        status.SinkDocument,
        sinks.SinkState,
        hidden=frozenset({"steps", "rows", "gone", "comparisons", "errors"}),
    ),
    Mirror(alerts.AlertEdgeDocument, episodes.Edge, unshown=frozenset({"raised", "now", "quiet"}), as_={"place": dict[str, Any]}),
    Mirror(status.PartDocument, part_state.PartState, {"age_s": "age"}),
    Mirror(
        status.MeDocument,
        rights.Principal,
        unshown=frozenset({"kind", "rights"}),
        added=frozenset({"verbs", "views", "rows", "max_rows"}),
    ),
    Mirror(status.MeDocument, rights.Rights, added=frozenset({"name", "expires", "max_rows"})),
    Mirror(
        status.EventFieldDocument,
        event.Field,
        {"kind": "arrow", "null": "optional"},
        unshown=frozenset(
            {"type", "default", "factory", "constraints", "items", "fields", "annotation", "encode_name", "rounding", "notation"}
        ),
        hidden=frozenset({"unit", "doc"}),  # an empty text is null
        as_={"kind": str},
    ),
    Mirror(status.AppendedDocument, tandem.infra.kafka.Appended, added=frozenset({"topic_id"})),
    Mirror(
        operations.PublishedDocument,
        publications.Publication,
        {"publication": "number"},
        unshown=frozenset({"counts", "rejected", "newest", "maxima", "watermarks", "after_final", "repaired"}),
        added=frozenset({"revision", "diff"}),
        hidden=frozenset({"cuts", "gaps"}),
        as_={"views": dict[str, list[int]]},
    ),
    Mirror(
        operations.ViewDiffDocument,
        release_diff.Diff,
        unshown=frozenset({"measures", "apart"}),
        added=frozenset({"status"}),
        hidden=frozenset({"matched", "changed", "only_old", "only_new"}),
    ),
    Mirror(operations.FiguresDocument, audits.AuditFigures, unshown=frozenset({"cause", "examples"}), added=frozenset({"share"})),
    Mirror(operations.ExpectationDocument, condition_result.ConditionResult),
    Mirror(operations.AuditedDocument, audits.Audit, added=frozenset({"cause", "examples"}), hidden=frozenset({"measure"})),
    Mirror(operations.RunStateDocument, commands.CommandRun, {"verb": "command"}, unshown=frozenset({"effect", "child", "over"})),
)

ALONE: Final = {
    "AlertStandsDocument": "what a book has of an alert, without its rows",
    "AlertsDocument": "lists of both",
    "ProblemDocument": "of no dataclass: RFC 9457's fields",
    "RowsDocument": "a list of rows",
    "OneRowDocument": "one row",
    "LookedDocument": "a list of rows",
    "LookupDocument": "a request",
    "ColumnDocument": "of an Arrow field, which has no names for these",
    "ViewStateDocument": "of a snapshot, a publication and a batch view",
    "ViewsDocument": "a list",
    "ViewDescribedDocument": "of a view, its answer's schema and a state",
    "StartDocument": "of the JSON document of a start",
    "OpenTransactionDocument": "of the JSON document of a blocked partition, with its warning",
    "RejectedTailDocument": "of the JSON document of a source's rejects, with cause and warning",
    "RejectSampleDocument": "of the JSON document of a sample, with its position as one text",
    "TopicStateDocument": "of the JSON document of a source's topics",
    "SourceStateDocument": "of a snapshot and what else is known of a source",
    "StatusDocument": "of all states",
    "StatementDocument": "a request",
    "SelectedFromDocument": "of the views that a statement names",
    "SelectedDocument": "a list of rows",
    "SourceDescribedDocument": "of a source and what the token may do",
    "SourcesDocument": "a list",
    "SentDocument": "a list of places",
    "SourceFreshnessDocument": "of the samples of a source, a list for each field",
    "FreshnessDocument": "of all sources",
    "HealthDocument": "one word",
    "HistoryDocument": "a list",
    "AuditsDocument": "a list",
    "QuarantinedDocument": "of a row of an Arrow table, tandem.views.decode's REJECTS_SCHEMA",
    "QuarantineDocument": "a list",
    "RecordAtDocument": "a request",
    "RetryDocument": "a request",
    "WouldBeDocument": "of the JSON document of `tandem quarantine --retry`, which validates it",
    "WouldFailDocument": "of the JSON document of `tandem quarantine --retry`, which validates it",
    "RetriedDocument": "of the JSON document of `tandem quarantine --retry`, which validates it",
    "_Options": "a request",
    "PlanDocument": "a request",
    "ApplyDocument": "a request",
    "PromoteDocument": "a request",
    "RollbackDocument": "a request",
    "RetireDocument": "a request",
    "ResumeDocument": "a request",
    "StartedDocument": "the name of a run",
    "RunsDocument": "a list",
}
"""Models that show no dataclass, with what they show."""


def models() -> dict[str, type[BaseModel]]:
    modules = [import_module(f"tandem.serving.http.models.{name}") for name in MODULES]
    return {
        name: thing
        for module in modules
        for name, thing in vars(module).items()
        if isinstance(thing, type) and issubclass(thing, BaseModel) and thing.__module__ == module.__name__
    }


def shown_by(of: type) -> dict[str, Any]:
    """The fields of a dataclass and its properties, with their types."""
    assert is_dataclass(of)
    hints = get_type_hints(of)
    found = {one.name: hints[one.name] for one in fields(of) if not one.name.startswith("_")}
    for kind in reversed(of.__mro__):
        for name, thing in vars(kind).items():
            if isinstance(thing, property) and thing.fget is not None:
                found[name] = get_type_hints(thing.fget)["return"]
    return found


def written_as(of: Any) -> Any:
    """The type as which the API writes a type, a union of one as that one."""
    origin, arguments = get_origin(of), get_args(of)
    if of is Position:
        return dict[str, dict[str, int]]
    if of is datetime:
        return str
    if origin is Annotated:
        return written_as(arguments[0])
    if origin is Literal:
        return str
    if origin in (Union, types.UnionType):
        return frozenset(written_as(one) for one in arguments)
    if origin in (list, tuple, frozenset, Sequence) or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return list[written_as(arguments[0])]  # a type that is computed
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[written_as(arguments[0]), written_as(arguments[1])]  # likewise
    models_of = [one.model for one in MIRRORS if one.of is of]
    return models_of[-1] if models_of else of


def without_null(of: Any) -> Any:
    """The type without null."""
    if isinstance(of, frozenset):
        left = of - {type(None)}
        return next(iter(left)) if len(left) == 1 else left
    return of


def differences(mirror: Mirror) -> list[str]:
    """What a model does not show of its dataclass as the table has it, a sentence each."""
    there, model = shown_by(mirror.of), mirror.model.model_fields
    own = {one.name for one in fields(mirror.of)}
    found = []
    shown = {name: mirror.named.get(name, name) for name in model if name not in mirror.added}
    found += [f"{name} of {mirror.of.__name__} is missing" for name in own - mirror.unshown - set(shown.values())]
    found += [f"{name} is no field of {mirror.of.__name__}" for name in mirror.unshown - own]
    found += [f"{name} is a field of {mirror.of.__name__} too" for name in mirror.added & own]
    for name, from_ in shown.items():
        if from_ not in there:
            found.append(f"{name} shows {from_}, which {mirror.of.__name__} does not have")
            continue
        expected = written_as(mirror.as_[name] if name in mirror.as_ else there[from_])
        is_ = written_as(get_type_hints(mirror.model)[name])
        if is_ != expected and not (name in mirror.hidden and without_null(is_) == without_null(expected)):
            found.append(f"{name} is {is_}; {mirror.of.__name__}.{from_} is written as {expected}")
    return found


@pytest.mark.parametrize("mirror", MIRRORS, ids=lambda mirror: f"{mirror.model.__name__} of {mirror.of.__name__}")
def test_a_model_has_the_fields_of_its_dataclass(mirror: Mirror) -> None:
    assert not differences(mirror)


def test_every_model_mirrors_a_dataclass_or_says_what_it_shows() -> None:
    assert set(models()) == {one.model.__name__ for one in MIRRORS} | set(ALONE)
