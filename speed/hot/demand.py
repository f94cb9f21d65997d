"""Whether somebody asks for answers, as the server reports it: folds keep that pace."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

LATELY_S: Final = 2.0
"""Seconds for which a question counts; a server reports further ones more often (`ledger/hot/feed.py`)."""
_AT_ONCE: Final = 64


@dataclass
class Demand:
    """Questions, from the bytes of a descriptor that the server writes while there are any."""

    clock: Callable[[], float] = time.monotonic
    _until: float = field(default=float("-inf"), init=False)
    _begun: threading.Event = field(default_factory=threading.Event, init=False, repr=False)

    def follow(self, descriptor: int) -> None:
        """Read until the end of the stream."""
        while os.read(descriptor, _AT_ONCE):
            self._until = self.clock() + LATELY_S
            self._begun.set()

    def there(self) -> bool:
        """Whether somebody has asked lately."""
        return self.clock() < self._until

    def wait(self, seconds: float) -> None:
        """Wait that long, or until somebody asks again after a while in which nobody did."""
        self._begun.clear()  # first: a question that comes meanwhile is not missed
        if self.there():
            time.sleep(seconds)
        else:
            self._begun.wait(seconds)
