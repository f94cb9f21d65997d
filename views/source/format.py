"""The contract of decoders: every module in views/source/formats satisfies it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.definition_text import call
from tandem.views.source.event import Event

Parse = Callable[..., Any]
"""From one non-empty value, and the record's parts that a function takes, to one struct of the event type; raises Reject."""


@dataclass(frozen=True)
class Searched:
    """`parse` reads all values; `plain` is faster, for values that `search` does not mark.

    `search` returns a boolean for each binary value, or null for a null. Arrow's search in a batch costs a fifth of Python's.
    """

    parse: Parse
    plain: Parse
    search: Callable[[pa.Array], pa.Array]

    def __call__(self, *record: Any) -> Any:
        """Read any value."""
        return self.parse(*record)

    def for_values(self, values: pa.Array) -> Iterable[Parse]:
        """For each of these binary values, the faster Parse that reads it."""
        marked = pc.indices_nonzero(pc.fill_null(self.search(values), False))
        if not len(marked):
            return repeat(self.plain)
        parsers = [self.plain] * len(values)
        for row in marked.to_pylist():
            parsers[row] = self.parse
        return parsers


def as_text(part: Any) -> bytes:
    """A part of a list in quarantine: its bytes, or the text of a Python value."""
    return part if isinstance(part, bytes) else repr(part).encode(errors="backslashreplace")


@dataclass(frozen=True)
class Listed:
    """How to read a value that holds several events: `split` divides it, `parse` turns each part into an event.

    `split` takes what a Parse takes, and raises Reject for a value that is not a list. `parse` takes a part, and raises Reject.
    `shown` gives the bytes of a rejected part.
    """

    split: Callable[..., Sequence[Any]]
    parse: Callable[[Any], Any]
    shown: Callable[[Any], bytes] = as_text


@dataclass(frozen=True)
class Unnested(Sequence[Any]):
    """The parts of a value that is unnested: `build` makes one of each item, when it is read.

    A value may have more items than a source takes, and each part repeats the rest of the value.
    """

    items: Sequence[Any]
    build: Callable[[Any], Any]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.build(self.items[index])


@runtime_checkable
class RecordFormat(Protocol):
    """A decoder as an object: a frozen dataclass, whose class and fields are its whole meaning.

    A fingerprint takes the fields by their repr, and the class alone where it has no fields. `str` gives the call that makes the
    object, as a definition writes it.
    """

    def parser(self, event: type[Event]) -> Parse:
        """Build the parser of values that hold one event. Raises DefinitionError if format and event type do not fit."""

    def listed(self, event: type[Event]) -> Listed:
        """Build the parser of values that hold several events. Raises DefinitionError, also for a format without lists."""


@dataclass(frozen=True)
class Entries:
    """The field of a source's `unnest` whose records hold a map: each entry is an event, with a struct of `key` and `value`."""

    field: str

    def __str__(self) -> str:
        return call("entries", self.field)


def entries(field: str) -> Entries:
    """`Source(unnest=entries("tags"))`: the records hold a map in this field, and each of its entries is an event."""
    return Entries(field)


Unnest = str | Entries
"""The field whose records hold a list, each item of which is an event; or a map, by its entries."""


@runtime_checkable
class NestedFormat(RecordFormat, Protocol):
    """A format whose values can hold lists and maps."""

    def unnest(self, event: type[Event], place: Unnest) -> Listed:
        """Build the parser of values that hold a list or map in the place of a field of the event type, and so several events.

        Raises DefinitionError if format and event type do not fit.
        """


@runtime_checkable
class LineFormat(Protocol):
    """A format whose files have an event in each line; with `header`, every record repeats the first line."""

    @property
    def header(self) -> bool:
        """Whether the file's first line names the columns of the others."""
