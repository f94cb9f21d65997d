"""Which records of a shared topic are a source's own, decided for each record independently."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from tandem.views.errors import said_by
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.formats.json import strict
from tandem.views.source.record_filter import ByField, ByHeader, RecordFilter

Tell = Callable[..., bool]
"""Whether a record is the source's, from its value and record_filter_parameters; raises Reject if that is undecidable."""


def own_rows(record_filter: RecordFilter, *columns: Sequence[Any]) -> tuple[list[int], dict[int, Reject]]:
    """The source's own rows, and by row the rejects where the filter cannot decide. All other rows belong to other sources.

    `columns` are the records' values, then the columns that record_filter_parameters names.
    """
    tell = _teller(record_filter)
    own: list[int] = []
    rejected: dict[int, Reject] = {}
    for row, read in enumerate(zip(*columns, strict=True)):
        try:
            if tell(*read):
                own.append(row)
        except Reject as reject:
            rejected[row] = reject
        except (MemoryError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  the project's own code may raise anything, SystemExit too
            rejected[row] = Reject("kind", said_by(error))
    return own, rejected


@lru_cache(maxsize=256)
def _teller(record_filter: RecordFilter) -> Tell:
    if isinstance(record_filter, ByHeader):
        return _by_header(record_filter)
    return _by_field(record_filter) if isinstance(record_filter, ByField) else _by_function(record_filter)


def _by_header(by_header: ByHeader) -> Tell:
    wanted = {value.encode() for value in by_header.values}

    def tell(value: bytes | None, headers: Sequence[dict[str, Any]] | None) -> bool:  # noqa: ARG001  only the header decides
        found = [header["value"] for header in headers or () if header["key"] == by_header.name]
        if not found:
            raise Reject("kind", f"the record has no header {by_header.name!r}")
        return found[-1] in wanted

    return tell


def _by_field(by_field: ByField) -> Tell:
    # A struct of one field, whose name need not be an identifier of Python.
    shape = msgspec.defstruct("Kind", [("kind", Any)], rename={"kind": by_field.name})
    read = strict(msgspec.json.Decoder(shape).decode, frozenset({by_field.name}), 1)

    def tell(value: bytes | None) -> bool:
        if not value:
            raise Reject("empty", "the record has no value" if value is None else "the value has no bytes")
        kind = read(value).kind
        # Types are compared too: True is not 1.
        return any(type(kind) is type(one) and kind == one for one in by_field.values)

    return tell


def _by_function(function: Callable[..., Any]) -> Tell:
    def tell(value: bytes | None, *more: Any) -> bool:
        found = function(value or b"", *more)
        if not isinstance(found, bool):
            raise Reject("kind", f"{function.__name__} returned a {type(found).__name__}, not a bool")
        return found

    return tell
