"""Endless events, over the command line and over HTTP, each retried until it is acknowledged."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from threading import Event
from typing import Any

from tests.campaign import project
from tests.campaign.commands import Tandem
from tests.campaign.server import NoAnswer, Server
from tests.campaign.tally import Tally

_A_SECOND = 2.0
_BY_COMMAND = 0.1
"""The share of batches that `tandem feed` sends: each starts Python."""


@dataclass
class Feeder:
    """What was acknowledged: the numbers of the events, and the places that the server gave."""

    tandem: Tandem
    server: Server
    tally: Tally
    random_: random.Random
    acknowledged: set[int] = field(default_factory=set)
    places: dict[tuple[int, int], int] = field(default_factory=dict)

    def run(self, stop: Event) -> None:
        """Send batches until stopped, the last one until it is acknowledged."""
        drawn = project.events(self.random_)
        while not stop.wait(1 / _A_SECOND):
            batch = self._batch(drawn)
            while not self._sent(batch):
                self.tally.count("batches sent again")
                if stop.wait(1):
                    return

    def _batch(self, drawn: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
        batch = list(islice(drawn, self.random_.randrange(20, 120)))
        # Copies of events that were sent before, some in the same batch.
        return batch + self.random_.sample(batch, len(batch) // 20)

    def _sent(self, batch: list[dict[str, Any]]) -> bool:
        lines = [project.line(event) for event in batch]
        numbers = [event["id"] for event in batch]
        if self.random_.random() < _BY_COMMAND:
            # Only the command takes what is no event; it goes to quarantine.
            ended = self.tandem.run(
                "feed", "-", "--source", project.SOURCE, "--allow-rejects", given=b"\n".join([*lines, b"no event", b""])
            )
            if ended.code or ended.document["sent"] != len(lines) + 1:
                return False
        else:
            try:
                records = self.server.send(project.SOURCE, lines)
            except NoAnswer:
                return False
            for number, record in zip(numbers, records, strict=True):
                if record["offset"] is not None:
                    self.places[record["partition"], record["offset"]] = number
        self.acknowledged.update(numbers)
        self.tally.count("acknowledged events", len(set(numbers)))
        return True
