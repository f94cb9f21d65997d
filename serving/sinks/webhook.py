"""An HTTP receiver as a sink's target: a signed request for each message, in order, at least once with the same id.

Messages and token are stored in one commit before anything is sent, so a process that is killed continues with the same messages,
however much of the view has changed meanwhile.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

from tandem.infra import clock
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.serving.sinks.log_messages import SinkMessage
from tandem.serving.sinks.outbox import Outbox, OutboxDocument, OutboxMessage
from tandem.serving.sinks.posting import Undelivered, check_address, key_of, post, signature_headers
from tandem.serving.sinks.sink_token import Stamp
from tandem.serving.sinks.target import SinkInProject, SinkRefused
from tandem.views.instant import EPOCH
from tandem.views.sinks.webhook import SinkWebhook

_PORTION: Final = 100
_SHARE: Final = 10
"""The number of messages, or the part of those that are left, after which it is stored that they were acknowledged."""


def check_target(defined: SinkInProject) -> None:
    """Raise SinkRefused for the address of the project's own server, which would append the messages to a source's topic."""
    target, serving = _webhook(defined), defined.settings.serving
    if target.address.startswith("$"):
        return
    parts = urlsplit(target.address)
    if parts.hostname in ("localhost", "127.0.0.1", "::1") and parts.port == serving.port:
        raise SinkRefused(
            f"sink {defined.sink.name!r}: {target.address} is the project's own server, on port {serving.port}; "
            "name another receiver"
        )


def open_target(defined: SinkInProject) -> "WebhookTarget":
    """The receiver of a sink, after it has acknowledged what an earlier process left.

    Raises SinkRefused, Undelivered, Unreadable, Unwritable.
    """
    return open_webhook(defined, os.environ, clock.now)


def open_webhook(defined: SinkInProject, environ: Mapping[str, str], clock: Callable[[], datetime]) -> "WebhookTarget":
    """The receiver of a sink in an environment. Raises as `open_target`."""
    sink, target = defined.sink, _webhook(defined)
    address = _variable(sink.name, target.address, environ, "the address") if target.address.startswith("$") else target.address
    check_address(f"sink {sink.name!r}: variable {target.address}", address)
    key = key_of(f"variable {target.secret}", _variable(sink.name, target.secret, environ, "the secret"))
    outbox = Outbox.of(Tables.of(defined.settings), sink.name)
    number = outbox.document.number or (clock() - EPOCH) // timedelta(microseconds=1)
    if outbox.document.target != target.address:
        outbox.change(lambda _: OutboxDocument(target.address, number=number))
    target_of_sink = WebhookTarget(sink.name, sink.view.name, address, key, outbox, defined.settings, clock)
    target_of_sink.deliver()
    return target_of_sink


@dataclass
class WebhookTarget:
    """The receiver of a sink's messages, and those that are stored for it."""

    name: str
    view: str
    address: str = field(repr=False)
    key: bytes = field(repr=False)
    outbox: Outbox
    settings: Settings
    clock: Callable[[], datetime]

    def token(self) -> str | None:
        """The text of the newest stamp, whose messages are all acknowledged; None before the first step."""
        return self.outbox.document.stamp

    def append(self, messages: Sequence[SinkMessage], stamp: Stamp) -> None:
        """Store the messages with the stamp, then send them. Raises Conflict, Unwritable, Undelivered."""
        token, first = stamp.text.partition(" ")[0], self.outbox.document.number
        common = {"sink": self.name, "view": self.view, "token": token, "publication": stamp.publication}
        of_token = hashlib.sha256(token.encode()).hexdigest()[:16]
        outgoing = []
        for number, message in enumerate(messages, first):
            text, last = f"{of_token}-{number}", number == first + len(messages) - 1
            document = {"id": text, "number": number, **common, "last": last, "kind": message.kind}
            document |= {"key": message.key, "value": message.value}
            outgoing.append(OutboxMessage(text, json.dumps(document, ensure_ascii=False)))
        self.outbox.change(lambda stored: stored.with_step(stamp.text, outgoing))
        self.deliver()

    def deliver(self) -> None:
        """Send all that is stored, and store what was acknowledged, now and then before the end. Raises as `append`."""
        while left := self.outbox.document.left:
            portion = left[: max(_PORTION, len(left) // _SHARE)]
            acknowledged = 0
            try:
                for message in portion:
                    self._send(message)
                    acknowledged += 1
            except Undelivered:
                self._acknowledge(acknowledged)
                raise
            self._acknowledge(acknowledged)

    def close(self) -> None:
        """Nothing is open between two requests."""

    def _acknowledge(self, number: int) -> None:
        self.outbox.change(lambda stored: stored.without_first(number))

    def _send(self, message: OutboxMessage) -> None:
        body, sinks = message.body.encode(), self.settings.sinks
        headers = signature_headers(message.id, int(self.clock().timestamp()), body, self.key)
        post(self.address, body, headers, timeout_s=sinks.timeout_s, ca_file=sinks.ca_file)


def _webhook(defined: SinkInProject) -> SinkWebhook:
    assert isinstance(defined.sink.to, SinkWebhook)
    return defined.sink.to


def _variable(sink: str, name: str, environ: Mapping[str, str], what: str) -> str:
    """The value of a variable that a definition names."""
    value = environ.get(name[1:], "")
    if not value:
        raise SinkRefused(f"sink {sink!r}: the environment has no variable {name[1:]} with {what} of the webhook")
    return value
