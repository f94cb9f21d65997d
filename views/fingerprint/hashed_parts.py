"""The meaning of a source's events and of a view's numbers: a tree of named parts, and its short hash, the fingerprint.

Equal fingerprints mean equal numbers, so a batch table is named by its fingerprint and is rebuilt only when that changes.

Not part of the tree, because they change no number: the order of fields and measures; names of event types without methods;
labels such as lateness; comments, formatting, docstrings and local names; the module of the project that holds the code.
"""

import dataclasses
from collections.abc import Mapping
from datetime import UTC
from functools import lru_cache
from types import FunctionType
from typing import Any, Final, cast

from tandem.views.composite.dated import DatedView, pieces
from tandem.views.composite.rollup import Rollup
from tandem.views.composite.table import Table
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.code_dependencies import code_of_classes, code_of_function
from tandem.views.fingerprint.event_meaning import event_meaning
from tandem.views.fingerprint.part_tree import Meaning, digest, version_of
from tandem.views.instant import APPEND_TIME, MICROSECOND, utc_text
from tandem.views.lookup.file_table import FileTable
from tandem.views.lookup.lookup import BoundLookup
from tandem.views.measures.of_source import OfSource
from tandem.views.source.decoder import Decoder, decoder_name
from tandem.views.source.record_filter import RecordFilter, record_filter_name, record_filter_value
from tandem.views.source.schema_version import Version
from tandem.views.source.source import Source, metadata_schema
from tandem.views.source.united_source import UnitedSource
from tandem.views.start import StartPositions, start_text
from tandem.views.view import View, bind

DECODE_VERSION: Final = 5
"""Increase it whenever a decoder of the platform returns another event, or another outcome, for some record."""

KERNEL_VERSION: Final = 3
"""Increase it whenever deduplicate, partial, merge or present could return another number for some events."""

DERIVED_VERSION: Final = 2
"""Increase it, instead, where only derived measures could: views without one keep their fingerprints."""

_DERIVED: Final = {"version": Meaning("derived version", DERIVED_VERSION, str(DERIVED_VERSION))}

LABELS: Final = ("topic", "lateness", "idle", "clock_skew", "dedup_window", "key", "compacted", "keep")
"""The parameters of a source that change no number."""

_CALLED_OF_MEASURES: Final = (
    "__post_init__",
    "inputs",
    "bind",
    "state",
    "answer",
    "partial",
    "merge",
    "present",
)

_CALLED_OF_DECODERS: Final = ("__post_init__", "parser", "listed")


@lru_cache(maxsize=1024)
def decoder_fingerprint(source: Source) -> str:
    """The hash of `decoder_meaning`."""
    return digest(decoder_meaning(source))


@lru_cache(maxsize=1024)
def fingerprint(view: View) -> str:
    """The hash of `view_meaning`."""
    return digest(view_meaning(view))


@lru_cache(maxsize=1024)
def decoder_meaning(source: Source) -> Meaning:
    """What decides which events the source's records become.

    Parts: the event type with the code that it reaches in the project; the decoder (a function with the code that it
    reaches); the same of earlier versions, with their upgrades; the record filter; the event-time field; the most events per
    record, whether each is rejected alone, and which field is unnested; what a tombstone is; the start; metadata columns; the
    plausible range. Not the topic: the log names its topics by their ids.
    """
    if isinstance(source, UnitedSource):
        return Meaning("events", parts={each.name: decoder_meaning(each) for each in source.sources})
    metadata, plausible = sorted(metadata_schema(source).names), [bound.astimezone(UTC).isoformat() for bound in source.plausible]
    return Meaning(
        "events",
        parts={
            "version": Meaning("decode version", DECODE_VERSION, str(DECODE_VERSION)),
            "decoder": _decoder(source.decoder),
            "event": event_meaning(source.event),
            "event_time": Meaning("event_time", source.event_time, source.event_time),
            "max_events_per_record": Meaning(
                "max_events_per_record",
                source.max_events_per_record,
                "one event a value" if source.max_events_per_record is None else f"{source.max_events_per_record} events a value",
            ),
            **_on_bad_event(source),
            **_unnest(source),
            **_tombstones(source),
            **_start(source),
            "metadata": Meaning("metadata", metadata, _listed(metadata)),
            "plausible": Meaning("plausible", plausible, " to ".join(plausible)),
            "record_filter": _record_filter(source.record_filter),
            "versions": _versions(source.versions),
            **_history_until(source),
        },
    )


def _history_until(source: Source) -> dict[str, Meaning]:
    if source.history_until is None:
        return {}
    until = source.history_until.astimezone(UTC).isoformat()
    return {"history_until": Meaning("history_until", until, until)}


def source_meaning(source: Source) -> Meaning:
    """What of a source decides the numbers of its views: its events, its identity, and its `prepare`.

    The source's name is a part, because two sources may have equal event types and different logs.
    """
    if isinstance(source, UnitedSource):
        return Meaning("sources", parts={each.name: source_meaning(each) for each in source.sources})
    identity = sorted(source.identity)
    return Meaning(
        "source",
        source.name,
        source.name,
        parts={
            "decoder": decoder_meaning(source),
            "identity": Meaning("identity", identity, _listed(identity)),
            **_identity_spans(source),
            "prepare": _function("prepare", source.prepare)
            if isinstance(source.prepare, FunctionType)
            else Meaning("prepare", None, "none"),
        },
    )


@lru_cache(maxsize=1024)
def view_meaning(view: View) -> Meaning:
    """What decides the view's numbers: its source, filter, keys, window and measures."""
    bound = bind(view)
    keys = {name: Meaning(f"key {name!r}", key.canonical, key.text, notes=_notes(view, name)) for name, key in bound.keys}
    measures = {
        measure.name: Meaning(name, measure.derived.canonical, str(written), _DERIVED, notes=_notes(view, measure.name))
        if measure.derived
        else _measure(name, written, [one.canonical for one in measure.inputs], _notes(view, measure.name))
        for measure in bound.measures
        for name, written in [(f"measure {measure.name!r}", view.measures[measure.name])]
    }
    window = _measure("window", view.window, [one.canonical for one in bound.window_inputs])
    pinned = {f"{package}==": version_of(package) for package in bound.placement.pinned}
    return Meaning(
        "view",
        parts={
            "version": Meaning("kernel version", KERNEL_VERSION, str(KERNEL_VERSION)),
            "source": source_meaning(view.source),
            "where": Meaning("filter", bound.where and bound.where.canonical, view.where or "none"),
            "keys": Meaning("keys", parts=keys, order=tuple(keys)),
            "window": dataclasses.replace(window, parts={**window.parts, **pinned}),
            "measures": Meaning("measures", parts=measures),
            **_lookups(view),
            **_keep(view),
            **_earlier(view),
            **_parent(view),
        },
        notes={"doc": view.doc, "expect": "; ".join(f"{text} ({severity})" for text, severity in view.expect.items())},
    )


def _lookups(view: View) -> dict[str, Meaning]:
    """A part for views that look up: the rows of the file, and what finds one."""
    lookups = bind(view).lookups
    if not lookups:
        return {}
    parts = {
        each.name: Meaning(
            f"lookup {each.name!r}",
            _lookup_value(each),
            each.lookup.text,
        )
        for each in lookups
    }
    return {"lookup": Meaning("lookup", parts=parts)}


def _lookup_value(bound: BoundLookup) -> list[Any]:
    """The rows of a file, or the meaning of a table's versions; and what finds one."""
    lookup, table = bound.lookup, bound.lookup.table
    missing = [["reject"]] if lookup.reject else [[name, default.to_pylist()[0]] for name, default in bound.defaults]
    if isinstance(table, Table):
        finds = [[name, key.canonical] for (name, _), key in zip(lookup.key, bound.keys, strict=True)]
        return ["table", fingerprint(table.parent), lookup.how, finds, *missing]
    assert isinstance(table, FileTable)  # there are no other tables
    texts = {
        line.texts[table.key]: {name: text for name, text in line.texts.items() if name != table.key} for line in table.lines
    }
    types = [["types", *map(list, table.types)]] if table.types else []
    return [table.key, texts, bound.keys[0].canonical, *missing, *types]


def _keep(view: View) -> dict[str, Meaning]:
    """A part for views that keep windows for some time; which events are ahead decides the greatest event time."""
    if view.keep is None:
        return {}
    return {"keep": Meaning("keep", [view.keep // MICROSECOND, view.source.clock_skew // MICROSECOND], f"keep {view.keep}")}


def _parent(view: View) -> dict[str, Meaning]:
    """A part for rollups: which events count is decided by the parent's keys and measures, too."""
    if not isinstance(view, Rollup):
        return {}
    return {"parent": Meaning("parent view", fingerprint(view.parent), view.parent.name)}


def _earlier(view: View) -> dict[str, Meaning]:
    """A part for views with earlier definitions. Others mean what they meant before there could be any."""
    if not isinstance(view, DatedView):
        return {}
    parts = {
        utc_text(each.until): Meaning(
            f"windows that begin before {utc_text(each.until)}", digest(view_meaning(piece.view)), "an earlier definition"
        )
        for each, piece in zip(view.earlier, pieces(view), strict=False)
    }
    return {"earlier": Meaning("earlier definitions", parts=parts, order=tuple(parts))}


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _notes(view: View, name: str) -> dict[str, str]:
    tolerance = str(view.tolerances[name]) if name in view.tolerances else ""
    return {"doc": view.docs.get(name, ""), "unit": view.units.get(name, ""), "tolerance": tolerance}


def _measure(name: str, measure: Any, inputs: list[str], notes: Mapping[str, str] | None = None) -> Meaning:
    """A measure's or a window's kind and parameters, with the meaning of its expressions in place of their text."""
    parameters = {field.name: getattr(measure, field.name) for field in dataclasses.fields(measure)}
    if isinstance(measure, OfSource):  # what the source means is a part beside the measures
        parameters["source"] = measure.source.name
    own = not type(measure).__module__.startswith("tandem.views.")
    if own and "<locals>" in type(measure).__qualname__:
        raise DefinitionError(
            f"{type(measure).__qualname__} is defined inside a function, so its code is not its whole meaning; define the class "
            "in a module"
        )
    # A measure of the project may use the text itself.
    texts = {} if own else {name: value for name, value in parameters.items() if _inputs(value, measure.inputs)}
    # The expressions of a measure in a measure are among the outer one's inputs.
    inner = {key: _measure(name, value, []) for key, value in parameters.items() if hasattr(value, "inputs")}
    kind = type(measure).__qualname__  # of the platform's no two have one name, whichever of its modules they are in
    value = {
        "measure": f"{kind} of the project" if own else kind,
        "inputs": inputs,
        "parameters": {
            key: inner[key].value if key in inner else repr(value) for key, value in parameters.items() if key not in texts
        },
        "expressions": sorted(texts),
    }
    code = code_of_classes([type(measure)], _CALLED_OF_MEASURES) if own else {}
    return Meaning(name, value, str(measure), {**inner, **code}, notes=notes or {})


def _inputs(value: Any, inputs: tuple[str, ...]) -> bool:
    """Whether a parameter is an input, or several of them."""
    return value in inputs or value == inputs or (isinstance(value, tuple) and bool(value) and set(value) <= set(inputs))


def _function(name: str, function: FunctionType) -> Meaning:
    """A function of the project, with the code that it reaches."""
    return Meaning(name, function.__qualname__, f"function {function.__qualname__}", code_of_function(function))


def _identity_spans(source: Source) -> dict[str, Meaning]:
    """A part for sources whose duplicates have any event time. Others mean what they meant before this could be chosen."""
    if source.identity_spans == "event_time" or source.event_time == APPEND_TIME:
        return {}
    return {"identity_spans": Meaning("identity_spans", "any_time", "duplicates of any event time")}


def _on_bad_event(source: Source) -> dict[str, Meaning]:
    """A part for sources whose events are rejected alone. Others mean what they meant before this could be chosen."""
    return {"on_bad_event": Meaning("on_bad_event", "event", "each event of a list alone")} if source.each_event_alone else {}


def _unnest(source: Source) -> dict[str, Meaning]:
    """A part for sources that unnest a field."""
    return {"unnest": Meaning("unnest", repr(source.unnest), str(source.unnest))} if source.unnest is not None else {}


def _tombstones(source: Source) -> dict[str, Meaning]:
    """A part for sources that do not reject tombstones, as all did before this could be chosen."""
    rule = source.tombstone_rule
    if rule == "reject":
        return {}
    return {"tombstones": Meaning("tombstones", rule, "no events" if rule == "skip" else "events of the decoder")}


def _start(source: Source) -> dict[str, Meaning]:
    """A part for sources with a start: its positions, once they are resolved."""
    if source.start is None:
        return {}
    start: Any = source.start
    value = start.to_json()["offsets"] if isinstance(start, StartPositions) else start_text(start)
    return {"start": Meaning("start", value, str(start) if isinstance(start, StartPositions) else start_text(start))}


def _record_filter(record_filter: RecordFilter | None) -> Meaning:
    if record_filter is None:
        return Meaning("record_filter", None, "every record")
    if isinstance(record_filter, FunctionType):
        return _function("record_filter", record_filter)
    return Meaning("record_filter", record_filter_value(record_filter), record_filter_name(record_filter))


def _versions(versions: tuple[Version, ...]) -> Meaning:
    """The earlier versions; their order counts, because they are tried in it."""
    parts = {str(number): _version(version) for number, version in enumerate(versions)}
    return Meaning("versions", len(parts), _listed([version.event.__name__ for version in versions]), parts, tuple(parts))


def _version(version: Version) -> Meaning:
    return Meaning(
        f"version {version.event.__name__}",
        parts={
            "decoder": _decoder(version.decoder),
            "event": event_meaning(version.event),
            "upgrade": _function("upgrade", cast("FunctionType", version.upgrade)),
        },
    )


def _decoder(decoder: Decoder) -> Meaning:
    if isinstance(decoder, FunctionType):
        return _function("decoder", decoder)
    kind: Any = type(decoder)
    own = not kind.__module__.startswith("tandem.views.")
    # By its name alone where there is nothing else to tell.
    value = repr(decoder) if own or dataclasses.fields(kind) else decoder_name(decoder)
    pinned = {f"{package}==": version_of(package) for package in getattr(decoder, "pinned", ())}
    return Meaning("decoder", value, str(decoder), (code_of_classes([kind], _CALLED_OF_DECODERS) if own else {}) | pinned)
