"""A webhook as a receiver of alerts: a signed request for each edge, in their order.

The headers are those of Standard Webhooks 1.0.0: `webhook-id`, the same in each attempt, `webhook-timestamp`, and
`webhook-signature`, the HMAC-SHA256 of both and the body.
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from tandem.serving.sinks.alerts.episodes import Edge
from tandem.serving.sinks.alerts.posting import post
from tandem.views.errors import TandemError

_PREFIX: Final = "whsec_"


@dataclass(frozen=True)
class Webhook:
    """Posts edges to an address, signed with a secret."""

    address: str
    secret: str = field(repr=False)
    timeout_s: float
    ca_file: str
    clock: Callable[[], datetime]
    name: str = "webhook"

    def send(self, edges: Sequence[Edge], raised: Sequence[Edge]) -> frozenset[str]:  # noqa: ARG002 - of the port
        """Post the oldest edge, and return its id once it is acknowledged. Raises AlertUndelivered."""
        if not edges:
            return frozenset()
        edge, body = edges[0], json.dumps(edge_document(edges[0]), ensure_ascii=False).encode()
        headers = headers_of(edge.id, int(self.clock().timestamp()), body, key_of(self.secret))
        post(self.address, body, headers, timeout_s=self.timeout_s, ca_file=self.ca_file)
        return frozenset({edge.id})


def edge_document(edge: Edge) -> dict[str, Any]:
    """An edge as receivers and `tandem alerts --json` have it."""
    document: dict[str, Any] = msgspec.to_builtins(edge)
    del document["quiet"]
    return document


def headers_of(number: str, timestamp: int, body: bytes, key: bytes) -> dict[str, str]:
    """The headers that identify and sign a request."""
    text = b".".join((number.encode(), str(timestamp).encode(), body))
    signature = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    return {"webhook-id": number, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}


def key_of(secret: str) -> bytes:
    """The key of a secret: base64 after `whsec_`, as the standard has it; else the text itself. Raises TandemError."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise TandemError("the setting `alerts.secret` begins with whsec_, and the rest of it is not base64") from None
