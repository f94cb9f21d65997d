"""A project as data: its definitions as one JSON document, without the code that they reach.

| is data                                                     | is code, of which only this is data             |
| ----------------------------------------------------------- | ----------------------------------------------- |
| names, docs, units, tolerances, fingerprints                |                                                 |
| keys, filters, derived measures: texts of expressions       |                                                 |
| windows and measures of the platform: class and parameters  | a measure of the project's: inputs, types, text |
|                                                             | a window of the project's: inputs, columns, text |
| fields of event types with their constraints                | methods of event types                          |
| decoders of the platform: class and parameters              | a function as decoder: name and parameters      |
| by_header, by_field                                         | a function as `record_filter`                   |
|                                                             | upgrades of versions                            |
|                                                             | prepare: the columns that it gives              |

`tandem.views.document.project_from_document` makes a project of the document again.
"""

import base64
import dataclasses
import enum
import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import FunctionType
from typing import Any, Final, get_args

import msgspec
import pyarrow as pa

from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.event_meaning import event_meaning
from tandem.views.fingerprint.fingerprint import DECODE_VERSION, KERNEL_VERSION, fingerprint
from tandem.views.fingerprint.packages import version_of
from tandem.views.measures.filtered import Filtered
from tandem.views.measures.measure import Measure
from tandem.views.project.project import Project
from tandem.views.remote_code import STEPS
from tandem.views.source.decoder import Decoder, decoder_name, record_parameters
from tandem.views.source.event import Event, Field, event_fields
from tandem.views.source.prepare import prepared_schema
from tandem.views.source.source import Source
from tandem.views.view import View, bind

FORMAT: Final = 4
"""Raise it whenever the document of a project could change, or is read in another way."""

CLASS: Final = "class"
ELSEWHERE: Final = "elsewhere"
FUNCTION: Final = "function"

TIMING: Final = ("bounded", "reach", "grace", "slice")
"""What a document has of a window's timing; the rest is code."""


class NotData(DefinitionError):
    """A value that only code makes."""


def document_of(project: Project) -> bytes:
    """The document of a project."""
    pinned = sorted({package for view in project.views.values() for package in bind(view).placement.pinned})
    document = {
        "meaning": meaning(pinned),
        "sources": [_source(one) for one in project.sources.values()],
        "views": [_view(one) for one in project.views.values()],
    }
    return json.dumps(document, separators=(",", ":")).encode()


def meaning(packages: Iterable[str]) -> dict[str, Any]:
    """What fingerprints depend on besides the project: versions of this platform, and of packages that decide windows."""
    return {
        "format": FORMAT,
        "decode": DECODE_VERSION,
        "kernel": KERNEL_VERSION,
        "packages": {package: version_of(package).value for package in packages},
    }


def decodes_by_code(source: Source) -> bool:
    """Whether a function or a method of the project runs when the source's records are decoded."""
    return bool(
        _is_code(source.decoder) or isinstance(source.record_filter, FunctionType) or source.versions or _has_code(source.event)
    )


def answers_by_code(view: View) -> bool:
    """Whether code of the project runs when states of the view are merged or presented."""
    return not all(_is_data(one) for one in (view.window, *view.measures.values()))


def schema_text(schema: pa.Schema) -> str:
    """The columns of a schema as text."""
    return base64.b64encode(schema.serialize()).decode()


def _has_code(event: type[Event]) -> bool:
    def of_fields(fields: Iterable[Field]) -> bool:
        return any(_factory_is_code(field) or of_fields(field.fields) or _default_is_code(field) for field in fields)

    return bool(event_meaning(event).parts["code"].parts) or of_fields(event_fields(event))


def _factory_is_code(field: Field) -> bool:
    return field.factory is not msgspec.NODEFAULT and field.factory not in (list, dict)


def _default_is_code(field: Field) -> bool:
    try:
        _default(field)
    except NotData:
        return True
    return False


def _source(source: Source) -> dict[str, Any]:
    code = decodes_by_code(source)
    plain = {
        name: data(getattr(source, name))
        for name in (
            "name",
            "topic",
            "event_time",
            "identity",
            "plausible",
            "lateness",
            "idle",
            "clock_skew",
            "dedup_window",
            "metadata",
            "key",
            "max_events_per_record",
            "compacted",
        )
    }
    prepare = source.prepare
    return {
        **plain,
        "code": code,
        "event": _event(source.event),
        "decoder": _decoder(source.decoder),
        "record_filter": None if isinstance(source.record_filter, FunctionType) else data(source.record_filter),
        "prepare": None
        if prepare is None
        else {FUNCTION: getattr(prepare, "__name__", ""), "schema": schema_text(prepared_schema(source))},
    }


def _decoder(decoder: Decoder) -> Any:
    if _is_code(decoder):
        return {FUNCTION: decoder_name(decoder), "parameters": list(record_parameters(decoder))}
    return data(decoder)


def _is_code(decoder: Decoder) -> bool:
    """Whether it is a function, or has a class, of the project."""
    return not _is_data(decoder)


def _is_data(value: Any) -> bool:
    """Whether a document can hold the whole value."""
    try:
        data(value)
    except NotData:
        return False
    return True


def _view(view: View) -> dict[str, Any]:
    return {
        "source": view.source.name,
        "keys": dict(view.keys),
        "window": _window(view),
        "measures": {name: _measure(view, name, measure) for name, measure in view.measures.items()},
        "where": view.where,
        "name": view.name,
        "doc": view.doc,
        "docs": dict(view.docs),
        "units": dict(view.units),
        "tolerances": dict(view.tolerances),
        "fingerprint": fingerprint(view),
    }


def _window(view: View) -> Any:
    if _is_data(view.window):
        return data(view.window)
    placed = bind(view).placement
    return {
        ELSEWHERE: {
            "text": str(view.window),
            "inputs": list(view.window.inputs),
            "states": schema_text(pa.schema(placed.columns.states)),
            "answers": schema_text(pa.schema(placed.columns.answers)),
            "steps": [name for name in STEPS if getattr(placed.steps, name) is not None],
            "timing": {name: data(getattr(placed.timing, name)) for name in TIMING},
            "independent": placed.independent,
            "in_order": placed.in_order,
            "reads": list(placed.events.reads),
            "pinned": list(placed.pinned),
        }
    }


def _measure(view: View, name: str, measure: Measure) -> dict[str, Any]:
    if _is_data(measure):
        return {"data": data(measure)}
    if isinstance(measure, Filtered):
        return {"filter": measure.filter, **_measure(view, name, measure.measure)}
    bound = next(one.aggregate for one in bind(view).measures if one.name == name)
    return {
        ELSEWHERE: {
            "text": str(measure),
            "inputs": list(measure.inputs),
            "states": schema_text(pa.schema([(state.suffix, state.type) for state in bound.states])),
            "answer": schema_text(pa.schema([("answer", bound.answer)])),
            "kind": bound.kind,
            "approximate": data(bound.approximate),
        }
    }


def _event(event: type[msgspec.Struct]) -> dict[str, Any]:
    config = event.__struct_config__
    return {
        "name": event.__name__,
        "array_like": config.array_like,
        "forbid_unknown_fields": config.forbid_unknown_fields,
        "tag_field": config.tag_field,
        "tag": config.tag,
        "fields": [_field(field) for field in event_fields(event)],
    }


def _field(field: Field) -> dict[str, Any]:
    found: dict[str, Any] = {"name": field.name, "key": field.key, **_type(field)}
    if not field.required:
        try:
            found["default"] = _default(field)
        except NotData:  # of code: what it gives is not asked of the document
            found["default"] = {"value": None}
    return found


def _default(field: Field) -> dict[str, Any]:
    if field.factory is not msgspec.NODEFAULT:
        if _factory_is_code(field):
            raise NotData(f"the default of {field.name!r} is made by a function")
        return {"factory": field.factory.__name__}
    if isinstance(field.default, enum.Enum):
        return {"member": field.default.name}
    return {"value": None if field.default is msgspec.NODEFAULT else data(field.default)}


def _type(field: Field) -> dict[str, Any]:
    """The type and marks of an annotation: of a field, or of a list's items."""
    found: dict[str, Any] = {
        "optional": field.optional,
        "constraints": {name: data(value) for name, value in field.constraints},
        "unit": field.unit,
        "doc": field.doc,
    }
    kind = field.type
    if field.items is not None:
        return {**found, "items": _type(field.items)}
    if field.fields:
        return {**found, "struct": _event(kind)}
    if values := get_args(kind):
        return {**found, "choices": list(values)}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {**found, "enum": kind.__name__, "members": [[member.name, member.value] for member in kind]}
    if kind is Decimal:
        return {**found, "scale": field.arrow.scale}
    return {**found, "scalar": kind.__name__}


def data(value: Any) -> Any:
    """A value as JSON holds it: a plain one, a time, a tuple, or a frozen dataclass of the platform with such values.

    Raises NotData for any other.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float) and type(value) in (int, float):
        return value
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, datetime):
        return {"datetime": value.isoformat()}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    if isinstance(value, timedelta):
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, tuple):
        return {"tuple": [data(one) for one in value]}
    if isinstance(value, list):
        return [data(one) for one in value]
    if isinstance(value, Mapping):
        return {"mapping": [[data(name), data(one)] for name, one in value.items()]}
    kind = type(value)
    if dataclasses.is_dataclass(kind) and kind.__module__.startswith("tandem.views."):
        fields = {field.name: data(getattr(value, field.name)) for field in dataclasses.fields(kind)}
        return {CLASS: f"{kind.__module__}.{kind.__qualname__}", "fields": fields}
    raise NotData(f"{value!r} of type {kind.__name__} is not data: no document of the project can hold it")
