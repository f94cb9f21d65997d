"""A pool of threads whose turns principals share fairly."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tandem.views.errors import TandemError, TooLong, said_by
from tandem.views.project.source_location import place_in_release

T = TypeVar("T")


@dataclass
class FairQueue(Generic[T]):
    """`places` slots, each held by one ticket of a principal; one principal holds at most `most`, all of them by default.

    A slot that becomes free goes to the next principal in turn that waits and holds fewer than `most`. So while a principal
    waits, every other principal gets at most one slot before it. For one thread.
    """

    places: int
    most: int | None = None
    _held: Counter[str] = field(default_factory=Counter, init=False, repr=False)
    _waiting: dict[str, deque[T]] = field(default_factory=dict, init=False, repr=False)  # in the order of turns

    def enter(self, principal: str, ticket: T) -> bool:
        """Whether the ticket gets a slot at once; otherwise it waits until `leave` returns it, or it is withdrawn."""
        if self._held.total() < self.places and self._may(principal):
            self._held[principal] += 1
            return True
        self._waiting.setdefault(principal, deque()).append(ticket)
        return False

    def leave(self, principal: str) -> tuple[str, T] | None:
        """Give a slot back. Returns the principal and ticket that hold it from now on, None if no ticket waits for it."""
        self._held[principal] -= 1
        if not self._held[principal]:
            del self._held[principal]
        following = next((one for one in self._waiting if self._may(one)), None)
        if following is None:
            return None
        tickets = self._waiting.pop(following)
        ticket = tickets.popleft()
        if tickets:
            self._waiting[following] = tickets  # behind all others
        self._held[following] += 1
        return following, ticket

    def withdraw(self, principal: str, ticket: T) -> None:
        """Stop waiting with a ticket that has no slot; other tickets are not affected."""
        tickets = self._waiting.get(principal, deque())
        if ticket in tickets:
            tickets.remove(ticket)
            if not tickets:
                del self._waiting[principal]

    def _may(self, principal: str) -> bool:
        return self.most is None or self._held[principal] < self.most


@dataclass
class FairPool:
    """`threads` threads, of which one principal uses at most `most` at a time; for one event loop."""

    name: str
    threads: int
    most: int | None = None
    _queue: FairQueue[asyncio.Future[None]] = field(init=False, repr=False)
    _executor: ThreadPoolExecutor | None = field(default=None, init=False, repr=False)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Run work until the context ends, which waits for running work."""
        assert self._executor is None, "the pool is open already, in another event loop"
        self._queue = FairQueue(self.threads, self.most)
        self._executor = ThreadPoolExecutor(self.threads, self.name)
        try:
            yield
        finally:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None

    async def run(self, by: str, work: Callable[[], T]) -> T:
        """The result of a function that runs in one of the threads, once it is the principal's turn.

        A caller that is cancelled stops waiting; a function that is running keeps its thread until it returns. Raises its errors,
        those of project code as TandemError.
        """
        await self._turn(by)
        assert self._executor is not None, "used before it was opened"
        loop = asyncio.get_running_loop()
        try:
            future = self._executor.submit(_guarded, work)
        except BaseException:
            self._leave(by)
            raise

        def done(_: "Future[Any]") -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._leave, by)

        future.add_done_callback(done)
        return await asyncio.wrap_future(future)

    async def _turn(self, by: str) -> None:
        ticket = asyncio.get_running_loop().create_future()
        if self._queue.enter(by, ticket):
            return
        try:
            await ticket
        except asyncio.CancelledError:
            if ticket.cancelled():
                self._queue.withdraw(by, ticket)
            else:
                self._leave(by)  # the turn came at the same time
            raise

    def _leave(self, by: str) -> None:
        following = self._queue.leave(by)
        while following is not None:
            principal, ticket = following
            if not ticket.cancelled():
                ticket.set_result(None)
                return
            following = self._queue.leave(principal)  # the waiting caller was cancelled


def _guarded(work: Callable[[], T]) -> T:
    try:
        return work()
    except TandemError:
        raise
    except (Exception, TooLong) as error:
        if not (place := place_in_release(error)):
            raise
        said = str(error) if isinstance(error, TooLong) else f"raised {said_by(error)}"
        raise TandemError(f"{place}: code of the project {said}") from error
