"""`tandem check`: check and show the definitions and the settings, without Java or broker."""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.published_definitions import published
from tandem.infra.settings import Settings, effective, keys
from tandem.ledger.delta.addresses import Tables
from tandem.views.alert import Alert
from tandem.views.bound_view import BoundMeasure
from tandem.views.composite.table import origin, origin_text
from tandem.views.errors import TandemError
from tandem.views.exactness import of_measures
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.fingerprint.schema_evolution import refuse_breaks
from tandem.views.measures import CustomMeasure
from tandem.views.measures.filtered import bare
from tandem.views.project.dialect_hints import hints
from tandem.views.project.partition_key import spread
from tandem.views.project.project import Project
from tandem.views.sinks.sink import Sink
from tandem.views.source.decoder import decoder_name
from tandem.views.source.event import event_fields
from tandem.views.source.prepare import prepared_schema
from tandem.views.source.record_filter import record_filter_name
from tandem.views.source.source import Prepare, Source, position_schema
from tandem.views.view import View, bind, described


def run(
    call: Call,
    *,
    laws: Annotated[
        bool, typer.Option("--laws", help="Test the project's own code against the laws of measures, on random events.")
    ] = False,
) -> Output:
    """Check definitions and settings, and show the types of keys and measures and the settings that differ from their defaults.

    With --laws, random events test the project's own code:

    * A measure fails if its answer depends on how events are split, grouped or ordered.
    * A source's `prepare` fails if its result for one event depends on other events.
    * The report includes the smallest failing input found.

    A hint names an operation of an expression that has another result in Spark or PostgreSQL; it does not fail the check.

    The check also fails for a source that could not read what is already published of it, because log and archive contain
    records of the published format.
    """
    settings, project = call.settings(), call.definitions()
    if (live := published(Tables.of(settings))) is not None:
        refuse_breaks(live, project)
    document: dict[str, Any] = {
        "project": str(call.project),
        "sources": {name: _source(source) for name, source in project.sources.items()},
        "views": {name: _view(view) for name, view in project.every_view.items()},
        "sinks": {name: _sink(call, sink, project, settings) for name, sink in project.sinks.items()},
        "alerts": {name: _alert(alert, project) for name, alert in project.alerts.items()},
        "hints": [{"operation": each.operation, "hint": each.hint, "places": list(each.places)} for each in hints(project)],
        "settings": effective(settings),
    }
    if not laws:
        return Output(document, "\n".join(_lines(document)))
    tried, prepared = _laws(project)
    document["laws"], document["prepare"] = tried, prepared
    lawless = any(broken for measures in (*tried.values(), prepared) for broken in measures.values())
    return Output(document, "\n".join([*_lines(document), *_lines_of_laws(tried, prepared)]), int(lawless))


def _source(source: Source) -> dict[str, Any]:
    return {
        "topic": ", ".join(source.topic_texts),
        "decoder": decoder_name(source.decoder),
        "event": source.event.__name__,
        "record_filter": None if source.record_filter is None else record_filter_name(source.record_filter),
        "versions": [version.event.__name__ for version in source.versions],
        "fields": {field.name: f"{field.arrow}{' or null' if field.optional else ''}" for field in event_fields(source.event)},
        "units": {field.name: field.unit for field in event_fields(source.event) if field.unit},
        "docs": {field.name: field.doc for field in event_fields(source.event) if field.doc},
        "event_time": source.event_time,
        "identity": list(source.identity),
        "identity_spans": source.identity_spans if source.identity else None,
        "key": source.key,
        "max_events_per_record": source.max_events_per_record,
        "unnest": None if source.unnest is None else str(source.unnest),
        "on_bad_event": source.on_bad_event if source.max_events_per_record is not None else None,
        "compacted": source.compacted,
        "tombstones": source.tombstone_rule,
        "plausible": [time.isoformat() for time in source.plausible],
        "lateness_s": source.lateness.total_seconds(),
        "idle_s": source.idle.total_seconds(),
        "clock_skew_s": source.clock_skew.total_seconds(),
        "prepare": None if source.prepare is None else _prepare(source, source.prepare),
    }


def _prepare(source: Source, function: Prepare) -> dict[str, Any]:
    columns = {
        field.name: str(field.type) for field in prepared_schema(source) if field.name not in position_schema(source).names
    }
    return {"function": function.__name__, "columns": columns}


def _view(view: View) -> dict[str, Any]:
    bound = bind(view)
    return {
        "source": view.source.name,
        **origin(view),
        "doc": view.doc,
        "where": view.where,
        **({"lookup": {each.name: each.lookup.text for each in bound.lookups}} if bound.lookups else {}),
        "window": str(view.window),
        "keys": {name: {"expression": key.text, "type": key.type.kind, **described(view, name)} for name, key in bound.keys},
        "measures": {measure.name: _measure(view, measure) for measure in bound.measures},
        "fingerprint": fingerprint(view),
        "warnings": [warning] if (warning := spread(view)) else [],
    }


def _sink(call: Call, sink: Sink, project: Project, settings: Settings) -> dict[str, Any]:
    # Few projects have a sink.
    from tandem.serving.sinks.definition import check_sink  # noqa: PLC0415
    from tandem.serving.sinks.target import SinkInProject  # noqa: PLC0415

    check_sink(SinkInProject(sink, project, settings, call.project))
    return {
        "view": sink.view.name,
        "to": str(sink.to),
        "keys": {key: None if value is None else str(value) for key, value in sink.keys.items()},
        "where": sink.where,
        "output": sink.output,
    }


def _alert(alert: Alert, project: Project) -> dict[str, Any]:
    from tandem.serving.sinks.alerts.definition import bind_alert  # noqa: PLC0415 - few projects have an alert

    bind_alert(alert, project.every_view[alert.view.name])
    return {
        "view": alert.view.name,
        "when": alert.when,
        "clear": alert.clear,
        "states": list(alert.states),
        "hold_s": alert.hold.total_seconds(),
        "within_s": alert.within.total_seconds(),
        "text": alert.text,
    }


def _measure(view: View, measure: BoundMeasure) -> dict[str, Any]:
    reasons = of_measures(view).get(measure.name)
    return {
        "measure": str(view.measures[measure.name]),
        "type": measure.aggregate.kind,
        **described(view, measure.name),
        "exactness": None if reasons is None else reasons[0].to_json(),
    }


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The document for a person."""
    yield f"project {document['project']} is valid"
    for name, source in document["sources"].items():
        spans = "at any event time" if source["identity_spans"] == "any_time" else "at equal event times"
        identity = f"identity {', '.join(source['identity'])} {spans}" if source["identity"] else "every record counts"
        yield f"\nsource {name}: topic {source['topic']}, decoder {source['decoder']}, time {source['event_time']}, {identity}"
        if source["record_filter"]:
            yield f"  of its topic only {source['record_filter']}"
        if source["versions"]:
            yield f"  earlier versions of {source['event']}: {', '.join(source['versions'])}"
        if source["max_events_per_record"] is not None:
            alone = "a bad event is rejected alone" if source["on_bad_event"] == "event" else "a bad event rejects its record"
            if source["unnest"] is not None:
                yield f"  each item of {source['unnest']} is an event"
            yield f"  a value has 1 to {source['max_events_per_record']} events; {alone}"
        if source["key"] is not None:
            yield f"  key of its records: {source['key']}"
        yield (
            f"  late: {source['lateness_s']:g} s behind its partition; idle: {source['idle_s']:g} s behind the newest; "
            f"ahead: {source['clock_skew_s']:g} s after its record"
        )
        for field, kind in source["fields"].items():
            yield f"  {field}: {kind}{_told(source['units'].get(field), source['docs'].get(field))}"
        if source["prepare"]:
            yield f"  prepared by {source['prepare']['function']}:"
            yield from (f"    {column}: {kind}" for column, kind in source["prepare"]["columns"].items())
    for name, view in document["views"].items():
        where = f", where {view['where']}" if view["where"] else ""
        yield f"\nview {name}{origin_text(view)}: {view['window']}{where}, fingerprint {view['fingerprint']}"
        if view["doc"]:
            yield f"  {view['doc']}"
        yield from (f"  {name}: {text}" for name, text in view.get("lookup", {}).items())
        for key, what in view["keys"].items():
            yield f"  key {key}: {what['type']} = {what['expression']}{_told(what.get('unit'), what.get('doc'))}"
        for measure, what in view["measures"].items():
            says = what["exactness"]["says"] if what["exactness"] else "exact"
            yield f"  {measure}: {what['type']}, {says} = {what['measure']}{_told(what.get('unit'), what.get('doc'))}"
        yield from (f"  warning: {warning}" for warning in view["warnings"])
    for name, sink in document["sinks"].items():
        rows = " and ".join([*(f"{key} = {value}" for key, value in sink["keys"].items()), *filter(None, [sink["where"]])])
        output = f", output {sink['output']}" if sink["output"] != "update" else ""
        yield f"\nsink {name} of {sink['view']}: {sink['to']}{output}{f', where {rows}' if rows else ''}"
    for name, alert in document["alerts"].items():
        clear = f", until {alert['clear']}" if alert["clear"] else ""
        yield f"\nalert {name} of {alert['view']}: when {alert['when']}{clear}, for {', '.join(alert['states'])} windows"
    if document["hints"]:
        yield "\nhints: these operations have other results in Spark or PostgreSQL (docs/expressions.md)"
        for each in document["hints"]:
            yield f"  {each['hint']}; used in {'; '.join(each['places'])}"
    yield from _settings(document["settings"])


def _told(unit: str | None, doc: str | None) -> str:
    """The unit and the text as the end of a line."""
    return f"{f' [{unit}]' if unit else ''}{f': {doc}' if doc else ''}"


def _settings(values: Mapping[str, Any]) -> Iterator[str]:
    """The settings that differ from their defaults, and how many do not."""
    defaults = {key.name: key.default for key in keys()}
    chosen = {name: value for name, value in _by_name(values, defaults) if value != defaults[name]}
    yield "\nsettings"
    yield from (f"  {name} = {value!r}" for name, value in chosen.items())
    yield f"  {len(defaults) - len(chosen)} more have the default of docs/configuration.md; `--json` prints all"


def _by_name(values: Mapping[str, Any], names: Collection[str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if prefix + name in names:
            yield prefix + name, value
        else:
            yield from _by_name(value, names, f"{prefix}{name}.")


def _laws(project: Project) -> tuple[dict[str, dict[str, str | None]], dict[str, str | None]]:
    """By view and measure of the project's own, the broken law with a counterexample; None if none was found.

    Also, by source with `prepare`, the events that it does not treat independently.
    """
    try:
        from tandem.views.verify.laws import counterexample, dependent_rows  # noqa: PLC0415  only this needs Hypothesis, which is optional
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise TandemError(
            "--laws needs the Python package 'hypothesis', which is not installed", code="packages-missing"
        ) from error

    tried: dict[str, dict[str, str | None]] = {}
    for name, view in project.views.items():
        for measure in bind(view).measures:
            written = view.measures[measure.name]
            inner = bare(written)
            if isinstance(inner, CustomMeasure):
                types = [one.type for one in measure.inputs[-len(inner.inputs) :]]
                try:
                    tried.setdefault(name, {})[measure.name] = counterexample(inner, types)
                except TandemError as error:
                    raise TandemError(f"view {name!r}, measure {measure.name!r}: {error}", code="definition-invalid") from error
    prepared: dict[str, str | None] = {}
    for name, source in project.sources.items():
        if source.prepare is not None:
            try:
                prepared[name] = dependent_rows(source)
            except TandemError as error:
                raise TandemError(f"source {name!r}, prepare: {error}", code="definition-invalid") from error
    return tried, prepared


def _lines_of_laws(tried: Mapping[str, Mapping[str, str | None]], prepared: Mapping[str, str | None]) -> Iterator[str]:
    yield "\nlaws" if tried or prepared else "\nlaws: nothing to test; the project defines no measures and no `prepare`"
    yield from (f"  {source}.prepare: {broken or 'no counterexample found'}" for source, broken in prepared.items())
    for name, measures in tried.items():
        yield from (f"  {name}.{measure}: {broken or 'no counterexample found'}" for measure, broken in measures.items())
