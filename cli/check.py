"""`tandem check`: what the definitions and the settings say, without Java, broker or tables."""

from collections.abc import Iterator, Mapping
from typing import Any

from cli.call import Call, Output
from infra.settings import effective
from views.decoder import decoder_name
from views.event import event_fields
from views.fingerprint import fingerprint
from views.source import Source
from views.view import BoundMeasure, View, bind
from views.windows import Tumbling


def run(call: Call) -> Output:
    """Check definitions and settings, and show what they mean: the types of keys and measures, the value of every setting."""
    settings, project = effective(call.settings()), call.definitions()
    document = {
        "project": str(call.project),
        "sources": {name: _source(source) for name, source in project.sources.items()},
        "views": {name: _view(view) for name, view in project.views.items()},
        "settings": settings,
    }
    return Output(document, "\n".join(_lines(document)))


def _source(source: Source) -> dict[str, Any]:
    return {
        "topic": source.topic,
        "decoder": decoder_name(source.decoder),
        "event": source.event.__name__,
        "fields": {field.name: f"{field.arrow}{' or null' if field.optional else ''}" for field in event_fields(source.event)},
        "event_time": source.event_time,
        "identity": list(source.identity),
        "plausible": [time.isoformat() for time in source.plausible],
        "lateness_s": source.lateness.total_seconds(),
    }


def _view(view: View) -> dict[str, Any]:
    bound = bind(view)
    return {
        "source": view.source.name,
        "where": view.where,
        "window_s": view.window.size.total_seconds() if isinstance(view.window, Tumbling) else None,
        "keys": {name: {"expression": key.text, "type": key.type.kind} for name, key in bound.keys},
        "measures": {measure.name: _measure(view, measure) for measure in bound.measures},
        "fingerprint": fingerprint(view),
    }


def _measure(view: View, measure: BoundMeasure) -> dict[str, Any]:
    how = measure.aggregate.approximate
    return {
        "measure": repr(view.measures[measure.name]),
        "type": measure.aggregate.kind,
        "approximate": None if how is None else {"kind": how.kind, "error": how.error, "confidence": how.confidence},
    }


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The document for a person."""
    yield f"project {document['project']} is well defined"
    for name, source in document["sources"].items():
        identity = f"identity {', '.join(source['identity'])}" if source["identity"] else "every record counts"
        yield f"\nsource {name}: topic {source['topic']}, decoder {source['decoder']}, time {source['event_time']}, {identity}"
        yield from (f"  {field}: {kind}" for field, kind in source["fields"].items())
    for name, view in document["views"].items():
        window = "all time" if view["window_s"] is None else f"windows of {view['window_s']:g} s"
        where = f", where {view['where']}" if view["where"] else ""
        yield f"\nview {name} of {view['source']}: {window}{where}, fingerprint {view['fingerprint']}"
        yield from (f"  key {key}: {what['type']} = {what['expression']}" for key, what in view["keys"].items())
        for measure, what in view["measures"].items():
            exact = f"approximate ({what['approximate']['kind']})" if what["approximate"] else "exact"
            yield f"  {measure}: {what['type']}, {exact} = {what['measure']}"
    yield "\nsettings"
    yield from _settings(document["settings"])


def _settings(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _settings(value, f"{prefix}{name}.")
        else:
            yield f"  {prefix}{name} = {value!r}"
