"""The storage of an address."""

from urllib.parse import unquote, urlparse

from infra.storage.local import Local
from infra.storage.storage import Storage
from views.errors import TandemError


def is_local(address: str) -> bool:
    """Whether an address is a folder of this machine: a path, or a URL of scheme `file`."""
    return len(urlparse(address).scheme) < 2 or address.startswith("file:")


def storage_at(address: str) -> Storage:
    """The storage whose root is this address: a folder's path, or its `file` URL as delta-rs prints it. Raises TandemError."""
    if not is_local(address):
        raise TandemError(f"{address} is an address; expected a folder of this machine")
    # A path is literal; a URL is percent-encoded.
    return Local(unquote(urlparse(address).path).rstrip("/") if address.startswith("file:") else address.rstrip("/"))
