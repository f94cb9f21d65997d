"""The lane of views whose answers need project code: it has a store, threads and answers of its own.

Project code may hang; only questions in this lane wait for it. Until a view with code is queried, the lane has no thread.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from tandem.serving.http.answers.lane import Lane
from tandem.views.document.described_definitions import runs_code
from tandem.views.project.project import Project


@dataclass
class CodeLane:
    """The lane, opened when it is first needed; for one event loop."""

    lane: Lane
    _stack: AsyncExitStack | None = field(default=None, init=False, repr=False)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)
    _opened: bool = field(default=False, init=False, repr=False)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Allow the lane to be opened, until the context ends."""
        async with AsyncExitStack() as stack:
            self._stack, self._opening = stack, asyncio.Lock()
            try:
                yield
            finally:
                self._stack, self._opened = None, False

    async def opened(self) -> Lane:
        """The lane; the first call opens it, and it polls from then on."""
        assert self._stack is not None, "used before it was opened"
        async with self._opening:
            if not self._opened:
                await self._stack.enter_async_context(self.lane.open())
                self._opened = True
        return self.lane

    @property
    def if_open(self) -> Lane | None:
        """The lane, if it has been opened."""
        return self.lane if self._opened else None


def needs_code(project: Project, view: str) -> bool:
    """Whether this lane answers a view of this name."""
    return view in project.views and runs_code(project.views[view])
