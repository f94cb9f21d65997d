"""SQL over the views: each statement in a process of its own, a bounded number of them at a time."""

import asyncio
from collections.abc import AsyncIterator, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from serving.memory.store import Store
from serving.sql.limits import Limits
from serving.sql.merged_views import MergedViews, Rows, ask
from serving.sql.sandbox import Sandbox


@dataclass
class Statements:
    """Runs statements over the views of a store, which somebody else brings to what is new, while it is `open`."""

    store: Store
    limits: Limits
    _threads: ThreadPoolExecutor | None = field(default=None, init=False, repr=False)
    _sandbox: Sandbox = field(init=False, repr=False)
    _views: MergedViews = field(init=False, repr=False)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Run statements until the context ends; the first starts what the others are forked from, in a second or two."""
        self._sandbox, self._views = Sandbox(self.limits), MergedViews(self.store)
        self._threads = ThreadPoolExecutor(self.limits.at_once, "statement")
        try:
            yield
        finally:
            self._threads.shutdown(wait=True, cancel_futures=True)
            self._sandbox.close()

    async def run(self, statement: str, *, readable: Collection[str]) -> Rows:
        """The rows of one SELECT over the views that are `readable`, at the newest snapshot. Raises Refused."""
        assert self._threads is not None, "asked before it was opened"
        run = partial(ask, self._sandbox, self._views, statement, readable=readable)
        return await asyncio.get_running_loop().run_in_executor(self._threads, run)
