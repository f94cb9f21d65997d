"""Which records of a shared topic are a source's own: each record by itself."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from views.errors import said_by
from views.source.fields.reasons import Reject
from views.source.formats.json import strict
from views.source.record_filter import ByField, ByHeader, Only

Tell = Callable[..., bool]
"""From a record's value and its only_parameters to whether it is the source's; raises Reject if it cannot decide."""


def own_rows(only: Only, *columns: Sequence[Any]) -> tuple[list[int], dict[int, Reject]]:
    """The source's own rows, and by row the rejects of those for which `only` cannot decide; all other rows are other sources'.

    `columns` are the records' values, then what only_parameters names.
    """
    tell = _teller(only)
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
def _teller(only: Only) -> Tell:
    if isinstance(only, ByHeader):
        return _by_header(only)
    return _by_field(only) if isinstance(only, ByField) else _by_function(only)


def _by_header(only: ByHeader) -> Tell:
    wanted = {value.encode() for value in only.values}

    def tell(value: bytes | None, headers: Sequence[dict[str, Any]] | None) -> bool:  # noqa: ARG001  told by its header alone
        found = [header["value"] for header in headers or () if header["key"] == only.name]
        if not found:
            raise Reject("kind", f"the record has no header {only.name!r}")
        return found[-1] in wanted

    return tell


def _by_field(only: ByField) -> Tell:
    # Of one field, whose name may be no name of Python's.
    shape = msgspec.defstruct("Kind", [("kind", Any)], rename={"kind": only.name})
    read = strict(msgspec.json.Decoder(shape).decode, frozenset({only.name}), 1)

    def tell(value: bytes | None) -> bool:
        if not value:
            raise Reject("empty", "the record has no value" if value is None else "the value has no bytes")
        kind = read(value).kind
        # Types too: True is no 1.
        return any(type(kind) is type(one) and kind == one for one in only.values)

    return tell


def _by_function(only: Callable[..., Any]) -> Tell:
    def tell(value: bytes | None, *more: Any) -> bool:
        found = only(value or b"", *more)
        if not isinstance(found, bool):
            raise Reject("kind", f"{only.__name__} returned a {type(found).__name__}, not a bool")
        return found

    return tell
