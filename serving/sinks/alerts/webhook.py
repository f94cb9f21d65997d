"""A webhook as a receiver of alerts: a signed request for each edge, in their order."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from tandem.serving.sinks.alerts.episodes import Edge
from tandem.serving.sinks.posting import key_of, post, signature_headers

SIGNING: Final = "the setting `alerts.secret`"


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
        """Post the oldest edge, and return its id once it is acknowledged. Raises Undelivered."""
        if not edges:
            return frozenset()
        edge, body = edges[0], json.dumps(edge_document(edges[0]), ensure_ascii=False).encode()
        headers = signature_headers(edge.id, int(self.clock().timestamp()), body, key_of(SIGNING, self.secret))
        post(self.address, body, headers, timeout_s=self.timeout_s, ca_file=self.ca_file)
        return frozenset({edge.id})


def edge_document(edge: Edge) -> dict[str, Any]:
    """An edge as receivers and `tandem alerts --json` have it."""
    document: dict[str, Any] = msgspec.to_builtins(edge)
    del document["quiet"]
    return document
