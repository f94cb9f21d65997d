"""What gives a source's events and a view's numbers their meaning, as a short hash.

Equal fingerprints mean equal numbers, so a batch table is named by one and is built anew only when it changes. What
changes no number does not count: the order of fields and measures, names of event types, lateness (a label), comments,
formatting, docstrings and local names.
"""

import dataclasses
import enum
import hashlib
import json
from datetime import UTC
from functools import lru_cache
from types import FunctionType
from typing import Any, Final, get_args

import msgspec

from views.decoder import Decoder
from views.errors import DefinitionError
from views.event import Field, event_fields
from views.reached import reached, reached_by_function
from views.source import Source
from views.view import View, bind

DECODE_VERSION: Final = 2
"""Raised whenever a decoder of the platform gives another event, or another outcome, for some record."""

KERNEL_VERSION: Final = 1
"""Raised whenever unique, partial, merge or present could give another number for some events."""

_CHARACTERS: Final = 16
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


@lru_cache(maxsize=1024)
def decoder_fingerprint(source: Source) -> str:
    """What decides which events the source's records become.

    Covers the event type with all that it reaches in the project, the decoder (a function with the code that it reaches),
    the event-time field, how many events a value holds, the metadata that events hold and the plausible range. Not the
    topic: the log names its topics by their ids.
    """
    structs = _types(source.event, event_fields(source.event))
    return _hash(
        {
            "version": DECODE_VERSION,
            "decoder": _decoder(source.decoder),
            "event": _struct(source.event, event_fields(source.event)),
            "event_time": source.event_time,
            "many": source.many,
            "metadata": sorted(source.metadata),
            "plausible": [bound.astimezone(UTC).isoformat() for bound in source.plausible],
            "code": reached(structs),
        }
    )


@lru_cache(maxsize=1024)
def fingerprint(view: View) -> str:
    """What decides the view's numbers: its decoder's fingerprint, source, identity, filter, keys, window and measures.

    Of a source that prepares its events also the function, with the code that it reaches.

    The source counts by its name, because two sources may have equal event types and different logs.
    """
    bound = bind(view)
    return _hash(
        {
            "version": KERNEL_VERSION,
            "decoder": decoder_fingerprint(view.source),
            "source": view.source.name,
            "identity": sorted(view.source.identity),
            "prepare": reached_by_function(view.source.prepare) if isinstance(view.source.prepare, FunctionType) else None,
            "where": bound.where and bound.where.canonical,
            "keys": [[name, key.canonical] for name, key in bound.keys],
            "window": [_measure(view.window, [one.canonical for one in bound.window_inputs]), bound.placement.pinned],
            "measures": {
                measure.name: measure.derived.canonical
                if measure.derived
                else _measure(view.measures[measure.name], [one.canonical for one in measure.inputs])
                for measure in bound.measures
            },
        }
    )


def _measure(measure: Any, inputs: list[str]) -> Any:
    """A measure's kind and parameters, with the meaning of its expressions in place of their text."""
    parameters = {field.name: getattr(measure, field.name) for field in dataclasses.fields(measure)}
    own = not type(measure).__module__.startswith("views.")
    if own and "<locals>" in type(measure).__qualname__:
        raise DefinitionError(
            f"{type(measure).__qualname__} is made inside a function, so its code does not say all that it does; write the class "
            "in a module"
        )
    # A project's code may use the text itself.
    texts = (
        {} if own else {name: value for name, value in parameters.items() if value in measure.inputs or value == measure.inputs}
    )
    meaning = {
        "measure": f"{type(measure).__module__}.{type(measure).__qualname__}",
        "inputs": inputs,
        "parameters": {name: _parameter(value) for name, value in parameters.items() if name not in texts},
        "expressions": sorted(texts),
    }
    return {**meaning, "code": reached([type(measure)], _CALLED_OF_MEASURES)} if own else meaning


def _parameter(value: Any) -> Any:
    """A parameter's value; of a measure in a measure its kind, since its expressions are among the outer one's inputs."""
    return _measure(value, []) if hasattr(value, "inputs") else repr(value)


def _decoder(decoder: Decoder) -> Any:
    if isinstance(decoder, str):
        return decoder
    return reached_by_function(decoder) if isinstance(decoder, FunctionType) else repr(decoder)


def _struct(struct: type[msgspec.Struct], fields: tuple[Field, ...]) -> Any:
    config = struct.__struct_config__
    return {
        "fields": {field.key: _field(field) for field in fields},
        "order": [field.key for field in fields] if config.array_like else None,
        "forbid_unknown_fields": config.forbid_unknown_fields,
        "tag": [config.tag_field, config.tag],
    }


def _field(field: Field) -> Any:
    default = field.default
    return {
        "name": field.name,
        "type": _type(field),
        "optional": field.optional,
        "required": field.required,
        "constraints": repr(field.constraints),
        "default": repr(default._value_ if isinstance(default, enum.Enum) else default),
        "factory": _factory(field.factory),
    }


def _type(field: Field) -> Any:
    if field.items is not None:
        return ["list", _field(field.items)]
    if field.fields:
        return _struct(field.type, field.fields)
    if isinstance(field.type, type) and issubclass(field.type, enum.Enum):
        return ["choice", sorted(repr(member.value) for member in field.type)]
    if values := get_args(field.type):
        return ["choice", sorted(repr(value) for value in values)]
    return [field.type.__name__, str(field.arrow)]


def _factory(factory: Any) -> Any:
    if factory is msgspec.NODEFAULT:
        return None
    if isinstance(factory, FunctionType):
        return reached_by_function(factory)
    return repr(factory())


def _types(struct: type[msgspec.Struct], fields: tuple[Field, ...]) -> list[type]:
    """The struct and every struct and enum below it: the classes whose methods decoding may call."""
    found: list[type] = [struct]
    for field in fields:
        inner = field
        while inner.items is not None:
            inner = inner.items
        if inner.fields:
            found += _types(inner.type, inner.fields)
        elif isinstance(inner.type, type) and issubclass(inner.type, enum.Enum):
            found.append(inner.type)
    return found


def _hash(meaning: Any) -> str:
    canonical = json.dumps(meaning, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:_CHARACTERS]
