"""A sink: a table elsewhere that is kept equal to a view, or to some of its rows."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tandem.views.errors import DefinitionError, listed
from tandem.views.view import View

_STORES: Final = ("s3", "gs", "az", "abfss")
_CREDENTIAL: Final = re.compile(r"://[^/?#@]*:[^/?#@]*@|\?")


@dataclass(frozen=True)
class SinkTable:
    """The Delta table of a sink, by its address."""

    address: str

    def __str__(self) -> str:
        return f"delta_table({self.address!r})"


def delta_table(address: str) -> SinkTable:
    """A Delta table as the target of a sink: a folder, relative to the project's, or the address of an object store.

    An address has no credential: the environment has it, and `storage.options` of the settings have what else its client needs.
    """
    if not isinstance(address, str) or not address.strip():
        raise DefinitionError(f"delta_table({address!r}): expected a folder, or an address such as 's3://lake/sales'")
    scheme, separator, place = address.partition("://")
    if separator and _CREDENTIAL.search(address):
        raise DefinitionError(f"delta_table: the {scheme} address has a credential or options; give them in the environment")
    if separator and (scheme not in _STORES or not place.partition("/")[2].strip("/")):
        stores = ", ".join(_STORES)
        raise DefinitionError(f"delta_table({address!r}): expected an address such as 's3://lake/sales', of one of {stores}")
    return SinkTable(address.rstrip("/") or address)


@dataclass(frozen=True, eq=False)
class Sink:
    """A target that `tandem sink` keeps equal to a view: its rows are the view's at the token that is stored with them.

    * `to`: the target, such as `delta_table("s3://lake/sales")`.
    * `keys`: only the rows with these values of keys; None means NULL.
    * `where`: only the rows for which this condition over the columns of an answer is true, such as `"n > 100"`.
    * `name`: the variable's name in definitions.py unless given.

    A sink is not a part of what its view means: to change it is not a new definition of the view.
    """

    view: View
    to: SinkTable
    keys: Mapping[str, Any] = field(default_factory=dict)
    where: str | None = None
    name: str = ""

    def check(self) -> None:
        """Raise DefinitionError for a value of another type, and for an unknown key."""
        if not isinstance(self.to, SinkTable):
            raise DefinitionError(f"to is {self.to!r}; expected a target, such as delta_table('sales')")
        if not isinstance(self.keys, Mapping):
            raise DefinitionError(f"keys is {self.keys!r}; expected values by name of a key, such as {{'city': 'OSLO'}}")
        for key in self.keys:
            if key not in self.view.keys:
                raise DefinitionError(f"view {self.view.name!r} has no key {key!r}; keys: {listed(str(key), self.view.keys)}")
        if self.where is not None and not isinstance(self.where, str):
            raise DefinitionError(f"where is {self.where!r}; expected a condition as a text, such as 'n > 100'")
