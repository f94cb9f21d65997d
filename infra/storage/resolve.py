"""The storage of an address."""

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import unquote, urlparse

from tandem.infra.storage.local import Local
from tandem.infra.storage.storage import Storage

VARIABLES: Final = ("AWS_", "AZURE_", "GOOGLE_")
"""How the variables begin from which the clients of object stores take credentials."""


def is_local(address: str) -> bool:
    """Whether an address is a folder of this machine: a path, or a URL of scheme `file`."""
    return len(urlparse(address).scheme) < 2 or address.startswith("file:")


def storage_at(address: str, options: Mapping[str, str]) -> Storage:
    """The storage whose root is this address: a folder's path, its `file` URL as delta-rs prints it, or an object store's URL."""
    if not is_local(address):
        found = ((name, value) for name, value in os.environ.items() if name.startswith(VARIABLES))
        return _object_store(address, frozenset(options.items()), frozenset(found))
    # A path is literal; a URL is percent-encoded.
    return Local(unquote(urlparse(address).path).rstrip("/") if address.startswith("file:") else address.rstrip("/"))


@lru_cache(maxsize=256)
def _object_store(address: str, options: frozenset[tuple[str, str]], _: frozenset[tuple[str, str]]) -> Storage:
    """The client of an address, made once: each has connections of its own, and reads all certificates of the system.

    The client itself takes credentials from the environment, so another environment is another client.
    """
    from tandem.infra.storage.object_store import ObjectStore  # noqa: PLC0415 - most projects have no object store

    return ObjectStore(address, dict(options))
