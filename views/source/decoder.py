"""What a source's decoder may be: an object of a format, such as json(), or a function of the project."""

import re
from collections.abc import Callable
from dataclasses import is_dataclass
from inspect import Parameter, signature
from types import FunctionType
from typing import Any, Final

from tandem.views.errors import DefinitionError, nearest_first
from tandem.views.source.event import Event
from tandem.views.source.format import RecordFormat
from tandem.views.source.formats import registry

DECODERS: Final = {name: made for name, made in vars(registry).items() if isinstance(made, FunctionType)}
"""The functions that make the platform's decoders, by name."""

Decoder = RecordFormat | Callable[..., Event]

RECORD_PARAMETERS: Final = ("key", "headers", "timestamp", "topic_id", "partition", "offset")
"""The parameters that a function may have besides the value: names of columns of RECORDS_SCHEMA."""

_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def defined_by_name(function: Any) -> bool:
    """Whether it is a module-level, named function, so that its code is its whole meaning."""
    return isinstance(function, FunctionType) and function.__qualname__ == function.__name__ != "<lambda>"


def check_function(role: str, function: FunctionType) -> None:
    """Check that a module defines the function by its name, and that each further parameter is a part of a record.

    Raises DefinitionError.
    """
    if not defined_by_name(function):
        raise DefinitionError(f"{role} {function.__qualname__} must be a module-level, named function")
    first, *others = [*signature(function).parameters] or [""]
    if not first or (unknown := [name for name in others if name not in RECORD_PARAMETERS]):
        wrong = f"takes {unknown[0]!r}" if first else "takes nothing"
        raise DefinitionError(
            f"{role} {function.__name__} {wrong}; {'a decoder' if role == 'decoder' else 'it'} takes the value's bytes first, "
            f"then by name what it needs of: {', '.join(RECORD_PARAMETERS)}"
        )


def check_decoder(decoder: Any) -> None:
    """Raise DefinitionError, with the object to write instead, unless it is a decoder."""
    if isinstance(decoder, str):
        if decoder in DECODERS:
            raise DefinitionError(f"decoder {decoder!r} is a text; write the object: decoder={_call(decoder)}")
        nearest = ", ".join(map(_call, nearest_first(decoder, DECODERS)))
        raise DefinitionError(f"unknown decoder {decoder!r}; a decoder is an object: {nearest}")
    if isinstance(decoder, FunctionType):
        if DECODERS.get(decoder.__name__) is decoder:
            raise DefinitionError(f"decoder {decoder.__name__} is not called; write decoder={_call(decoder.__name__)}")
        check_function("decoder", decoder)
    elif isinstance(decoder, type) or not isinstance(decoder, RecordFormat) or not is_dataclass(decoder):
        raise DefinitionError(
            f"invalid decoder {decoder!r}; expected an object ({', '.join(map(_call, DECODERS))}), or a function of the project "
            "that takes the value's bytes and returns an event"
        )


def record_parameters(decoder: Decoder) -> tuple[str, ...]:
    """The parameters of a function after the value, in order; of a format the parts of a record that it names, which few do."""
    return tuple(signature(decoder).parameters)[1:] if isinstance(decoder, FunctionType) else getattr(decoder, "record_parts", ())


def reads_tombstones(decoder: Decoder) -> bool:
    """Whether it can make an event of a record without a value: a function of the project, and a format that says so."""
    return isinstance(decoder, FunctionType) or getattr(decoder, "reads_tombstones", False)


def decoder_name(decoder: Decoder) -> str:
    """The decoder's name for readers: `json`, `apache_combined`, `my_function`."""
    if isinstance(decoder, FunctionType):
        return decoder.__name__
    return _WORD_START.sub("_", type(decoder).__name__).lower()


def _call(name: str) -> str:
    """The call by which a definition makes the decoder of this name."""
    takes = signature(DECODERS[name]).parameters.values()
    return f"{name}({'...' if any(one.kind is Parameter.KEYWORD_ONLY for one in takes) else ''})"
