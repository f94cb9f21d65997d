"""Messages that are stored before anybody may send them, with the stamp of their step, until they are acknowledged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tandem.serving.sinks.stored_document import StoredDocument


@dataclass(frozen=True)
class OutboxMessage:
    """A message as it is sent, in each attempt with the same id and the same text."""

    id: str
    body: str


@dataclass(frozen=True)
class OutboxDocument:
    """What is stored of a sink: its address as defined, the stamp of its newest step, and the messages of it that are left.

    `stamp` is None before the first step. `number` is the next message's, one more than the last. It begins at the time in
    microseconds, so that no id of a lost outbox comes again.
    """

    target: str = ""
    stamp: str | None = None
    number: int = 0
    left: tuple[OutboxMessage, ...] = ()

    def with_step(self, stamp: str, messages: Sequence[OutboxMessage]) -> "OutboxDocument":
        """The document with the messages of the next step, all before them sent."""
        assert not self.left
        return replace(self, stamp=stamp, number=self.number + len(messages), left=tuple(messages))

    def without_first(self, acknowledged: int) -> "OutboxDocument":
        """The document after the receiver has acknowledged messages, the oldest ones."""
        return replace(self, left=self.left[acknowledged:])


class Outbox(StoredDocument[OutboxDocument]):
    """The messages of a sink that are to be sent; `Outbox.of` opens it."""

    kind = OutboxDocument
    folder = "outboxes"
