"""A Delta table as the target of a sink."""

import re
from dataclasses import dataclass
from posixpath import normpath
from typing import Final

from tandem.views.errors import DefinitionError
from tandem.views.sinks.sink import SinkTarget

_STORES: Final = ("s3", "gs", "az", "abfss")
_CREDENTIAL: Final = re.compile(r"://[^/?#@]*:[^/?#@]*@|\?")


@dataclass(frozen=True)
class SinkTable(SinkTarget):
    """The Delta table of a sink, by its address."""

    address: str

    @property
    def relative(self) -> bool:
        """Whether it is a folder in the project's."""
        outside = self.address.startswith(("/", "~")) or normpath(self.address).split("/")[0] == ".."
        return "://" not in self.address and not outside

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
