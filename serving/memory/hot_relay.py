"""The messages of one process of hot tails, passed on to several workers of a server."""

import os
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue

from ledger.realtime.hot_messages import HotMessage, framed
from serving.memory.hot_feed import HotFeed


@dataclass
class HotRelay:
    """Passes messages on to each worker that joined; `feed` has the present state, which a worker gets first.

    A worker that does not read delays no other one. What waits for it is dropped when it leaves.
    """

    feed: HotFeed
    _queues: dict[int, "SimpleQueue[bytes | None]"] = field(default_factory=dict, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def apply(self, message: HotMessage) -> None:
        """Pass a message on. Raises TandemError if it cannot be read."""
        with self._lock:
            self.feed.apply(message)
            self._send(message)

    def disconnect(self, why: str) -> None:
        """Have all workers drop everything: the process has ended."""
        with self._lock:
            self.feed.disconnect(why)
            for message in self.feed.messages():
                self._send(message)

    def join(self, number: int, descriptor: int) -> None:
        """Write the present state and all that follows to this descriptor, which the worker's `leave` closes."""
        queue: SimpleQueue[bytes | None] = SimpleQueue()
        with self._lock:
            for message in self.feed.messages():
                queue.put(framed(message))
            self._queues[number] = queue
        threading.Thread(target=_write, args=(queue, descriptor), name=f"hot tails, worker {number}", daemon=True).start()

    def leave(self, number: int) -> None:
        """The worker has ended."""
        with self._lock:
            queue = self._queues.pop(number, None)
        if queue is not None:
            queue.put(None)

    def _send(self, message: HotMessage) -> None:
        content = framed(message)
        for queue in self._queues.values():
            queue.put(content)


def _write(queue: "SimpleQueue[bytes | None]", descriptor: int) -> None:
    with os.fdopen(descriptor, "wb", buffering=0) as stream, suppress(OSError):
        while (content := queue.get()) is not None:
            left = memoryview(content)
            while left:
                left = left[stream.write(left) :]
