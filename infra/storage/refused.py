"""Whether an object store refused a request for its credentials or their rights: then a repetition does not help."""

import re
from typing import Final

ADVICE: Final = "check the credentials and their rights (docs/object-store.md, Options and credentials)"

# Listings, streams and delta-rs have the status in their text only. An expired token of Amazon's is 400 Bad Request.
_REFUSED: Final = re.compile(r"\b(401 Unauthorized|403 Forbidden)\b|<Code>(Expired|Invalid)Token</Code>")


def refused(error: BaseException) -> bool:
    """Whether the client's error, of obstore or delta-rs, is the store's answer to bad credentials or missing rights."""
    return _REFUSED.search(str(error)) is not None
