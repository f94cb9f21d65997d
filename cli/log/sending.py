"""Values of files on their way to a topic: keyed, sent, and decoded where their rejects are counted."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from tandem.cli.records.bundles import BundledValue
from tandem.cli.records.file_values import FileValues
from tandem.cli.records.record_keys import PIECE
from tandem.cli.records.reject_groups import RejectGroups, decode_values, sample_sentence
from tandem.infra import kafka
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.views.project.partition_key import record_keys
from tandem.views.source.source import Source


class RecordSender(Protocol):
    """Takes records for a topic: kafka.Sender, or a collection of what one transaction gets."""

    acknowledged: int

    def send(self, topic: str, value: bytes | None, key: bytes | None = None) -> None:
        """Hand over one record. Raises NotSent."""

    def poll(self) -> None:
        """Process acknowledgements. Raises NotSent."""

    def finish(self) -> None:
        """Return when all is acknowledged. Raises NotSent."""


@dataclass
class RecordSending:
    """Values that are not sent yet, because their keys are computed together; with `rejects`, those not decoded yet.

    `file` and `unit` name a value's place in errors.
    """

    source: Source
    topic: str
    file: str
    sender: RecordSender
    show: Callable[[int, int], None]
    rejects: RejectGroups | None = None
    unit: str = "line"
    schemas: RegistrySchemas | None = None
    values: list[BundledValue] = field(default_factory=list)
    undecoded: list[BundledValue] = field(default_factory=list)
    sent: int = 0
    last: int = 0
    """The line where the last record that was sent begins; 0 before the first."""

    def add(self, value: BundledValue) -> None:
        """Add the value, and send all waiting values if there are enough."""
        self.values.append(value)
        if self.source.key is None or len(self.values) >= PIECE:
            self.flush()

    def extend(self, values: Iterable[BundledValue]) -> None:
        """Add all these values."""
        for value in values:
            self.add(value)

    def flush(self) -> None:
        """Send all waiting values, and check for acknowledgements and errors."""
        values = [one.value for one in self.values]
        source = self.source
        if self.schemas is not None and source.key is not None:  # without a key nothing is decoded here
            source = self.schemas.ready_for(source, values)
        for key, one in zip(record_keys(source, values), self.values, strict=True):
            self.sent += 1
            try:
                self.sender.send(self.topic, one.value, key)
            except kafka.NotSent as error:
                raise kafka.NotSent(f"{self.unit} {one.line} of {self.file}: {error}", code=error.code) from None
            self.last = one.line
            self.show(self.sent, one.size)
        if self.rejects is not None:
            self.undecoded += self.values
            if len(self.undecoded) >= PIECE:
                self._decode(self.rejects)
        self.values.clear()
        self.sender.poll()

    def finish(self) -> None:
        """Send what waits. Returns when all is acknowledged. Raises NotSent."""
        self.flush()
        self.sender.finish()
        if self.rejects is not None and self.undecoded:
            self._decode(self.rejects)

    def _decode(self, rejects: RejectGroups) -> None:
        decode_values(self.source, self.undecoded, rejects, self.schemas)
        self.undecoded.clear()


def say_rejects(say: Callable[[str], None], source: Source, values: FileValues, schemas: RegistrySchemas) -> None:
    """Say which of a file's first values cannot be decoded. Raises TandemError if that is most of them."""
    if doubt := sample_sentence(source, values.sample(), values.name, values.unit, schemas=schemas):
        say(f"tandem: {doubt}")
