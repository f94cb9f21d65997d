"""Values of a view's keys from a program, converted to what Arrow returns, so that they can be hashed and compared.

Values that have exactly their key's type, as nearly all do, pass unchanged; `selection.select` checks all others.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import Any, Final

import pyarrow as pa

from tandem.serving.read.selection import ALWAYS, BadSelection, select
from tandem.views.errors import listed
from tandem.views.view import View

_FITS: Final[dict[int, Callable[[Any], bool]]] = {
    pa.string().id: lambda value: type(value) is str and value.isascii(),
    pa.int64().id: lambda value: type(value) is int and -(2**63) <= value < 2**63,
    pa.bool_().id: lambda value: type(value) is bool,
    pa.binary().id: lambda value: type(value) is bytes,
    pa.date32().id: lambda value: type(value) is date,
    pa.timestamp("us", "UTC").id: lambda value: type(value) is datetime and value.tzinfo is not None,
}


def fits(value: Any, arrow: pa.DataType) -> bool:
    """Whether a value has exactly its key's type; other values may still be convertible to it."""
    known = _FITS.get(arrow.id)
    return known is not None and known(value)


def key_of(view: View, types: Iterable[pa.DataType], given: Mapping[str, Any]) -> tuple[Any, ...]:
    """The values of all keys of the view, in its order; `types` are theirs. Raises BadSelection, also if a key is missing."""
    if given.keys() != view.keys.keys():
        select(view, given, ALWAYS)
        missing = [name for name in view.keys if name not in given]
        raise BadSelection(
            f"a row of view {view.name!r} needs a value for each key, None for NULL; {', '.join(missing)} is missing; keys: "
            f"{listed('', view.keys)}"
        )
    found = []
    for name, arrow in zip(view.keys, types, strict=True):
        value = given[name]
        if value is not None and not fits(value, arrow):
            value = select(view, {name: value}, ALWAYS).keys[name].as_py()
        found.append(value)
    return tuple(found)


def keys_of(view: View, types: Iterable[pa.DataType], given: Iterable[Any]) -> list[tuple[Any, ...]]:
    """`key_of` for many keys; if the view has one key, each may also be its bare value."""
    types, names = tuple(types), [*view.keys]
    found = []
    for one in given:
        if not isinstance(one, Mapping) and len(names) != 1:
            raise BadSelection(
                f"invalid key {one!r} of view {view.name!r}; expected a mapping with a value for each of {', '.join(names)}"
            )
        found.append(key_of(view, types, one if isinstance(one, Mapping) else {names[0]: one}))
    return found
