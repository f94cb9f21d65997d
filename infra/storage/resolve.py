"""The storage of an address."""

from collections.abc import Mapping
from urllib.parse import unquote, urlparse

from infra.storage.local import Local
from infra.storage.storage import Storage


def is_local(address: str) -> bool:
    """Whether an address is a folder of this machine: a path, or a URL of scheme `file`."""
    return len(urlparse(address).scheme) < 2 or address.startswith("file:")


def storage_at(address: str, options: Mapping[str, str]) -> Storage:
    """The storage whose root is this address: a folder's path, its `file` URL as delta-rs prints it, or an object store's URL."""
    if not is_local(address):
        from infra.storage.object_store import ObjectStore  # noqa: PLC0415 - most projects have no object store

        return ObjectStore(address, options)
    # A path is literal; a URL is percent-encoded.
    return Local(unquote(urlparse(address).path).rstrip("/") if address.startswith("file:") else address.rstrip("/"))
