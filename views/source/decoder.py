"""What a source's decoder may be: the name of one of the platform's, one with parameters, or a function of the project."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from types import FunctionType
from typing import Any, Final, Literal, Protocol, get_args, runtime_checkable

from views.errors import DefinitionError, listed
from views.source.event import Event

DecoderName = Literal["json", "apache_combined", "nginx_json", "syslog"]
DECODER_NAMES: Final[tuple[str, ...]] = get_args(DecoderName)

Parse = Callable[..., Any]
"""One non-empty value, and what record_parameters names, to one struct of the event type; raises Reject."""


@dataclass(frozen=True)
class Listed:
    """How a value that holds several events is read: `split` takes it apart, `parse` makes an event of each part.

    `split` takes what a Parse takes, and raises Reject for what is not a list at all; `parse` takes a part, and raises Reject.
    """

    split: Callable[..., Sequence[Any]]
    parse: Callable[[Any], Any]


RECORD_PARAMETERS: Final = ("key", "headers", "timestamp", "topic_id", "partition", "offset")
"""What a function may take of a record beside its value: names of columns of RECORDS_SCHEMA."""


@runtime_checkable
class ParameterizedDecoder(Protocol):
    """A decoder with parameters: a frozen dataclass whose fields, written by repr, are all that tells it from another."""

    def parser(self, event: type[Event]) -> Parse:
        """The decoder made for an event type; raises DefinitionError if the two do not go together."""

    def listed(self, event: type[Event]) -> Listed:
        """The decoder of values that hold several events; raises DefinitionError also if the format has no such values."""


Decoder = DecoderName | ParameterizedDecoder | Callable[..., Event]


def defined_by_name(function: Any) -> bool:
    """Whether it is a function that a module defines by its name: what its code says is then all that it does."""
    return isinstance(function, FunctionType) and function.__qualname__ == function.__name__ != "<lambda>"


def check_function(role: str, function: FunctionType) -> None:
    """Raise DefinitionError unless a module defines it by its name, and each of its parameters is a part of a record."""
    if not defined_by_name(function):
        raise DefinitionError(f"{role} {function.__qualname__} must be a module-level, named function")
    first, *others = [*signature(function).parameters] or [""]
    if not first or (unknown := [name for name in others if name not in RECORD_PARAMETERS]):
        wrong = f"takes {unknown[0]!r}" if first else "takes nothing"
        raise DefinitionError(
            f"{role} {function.__name__} {wrong}; {'a decoder' if role == 'decoder' else 'it'} takes the value's bytes first, "
            f"then by name what it needs of: {', '.join(RECORD_PARAMETERS)}"
        )


def check_decoder(decoder: Decoder) -> None:
    """Raise DefinitionError unless it is a decoder."""
    if isinstance(decoder, FunctionType):
        check_function("decoder", decoder)
    elif isinstance(decoder, str):
        if decoder not in DECODER_NAMES:
            raise DefinitionError(f"no decoder {decoder!r}; decoders: {listed(decoder, DECODER_NAMES)}")
    elif isinstance(decoder, type) or not isinstance(decoder, ParameterizedDecoder):
        raise DefinitionError(
            f"decoder {decoder!r} is not a decoder: one of {', '.join(map(repr, DECODER_NAMES))}, one with parameters such as "
            "csv(columns=('id', 'at')), or a function of the project that takes the value's bytes and returns an event"
        )


def record_parameters(decoder: Decoder) -> tuple[str, ...]:
    """What a function takes of a record after its value, in order; nothing for any other decoder."""
    return tuple(signature(decoder).parameters)[1:] if isinstance(decoder, FunctionType) else ()


def decoder_name(decoder: Decoder) -> str:
    """What a reader calls the decoder: `json`, `csv`, `my_function`."""
    if isinstance(decoder, str):
        return decoder
    return decoder.__name__ if isinstance(decoder, FunctionType) else type(decoder).__name__.lower()
