"""SQL over the views: each statement in a process of its own, a bounded number at a time, in turn for all principals."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from tandem.serving.access.fair_pool import FairPool
from tandem.serving.memory.store import Store
from tandem.serving.sql.limits import StatementLimits
from tandem.serving.sql.merged_views import MergedRows, MergedViews, ask
from tandem.serving.sql.sandbox import Sandbox


@dataclass
class Statements:
    """Runs statements over the views of a store, which another task keeps current, while it is `open`.

    One principal runs at most one statement fewer than there are slots (`limits.at_once`), so that another principal finds a
    slot however long these take.
    """

    store: Store
    limits: StatementLimits
    _places: FairPool = field(init=False, repr=False)
    _sandbox: Sandbox = field(init=False, repr=False)
    _views: MergedViews = field(init=False, repr=False)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Run statements until the context ends; the first one starts the zygote, which takes a second or two."""
        self._sandbox = Sandbox(self.limits)
        self._views = MergedViews(self.store)
        self._places = FairPool("statement", self.limits.at_once, max(1, self.limits.at_once - 1))
        try:
            with self._places.open():
                yield
        finally:
            self._sandbox.close()

    async def run(self, statement: str, *, readable: Collection[str], by: str) -> MergedRows:
        """The rows of one SELECT over the `readable` views, at the newest snapshot, for a principal. Raises Refused."""
        run = partial(ask, self._sandbox, self._views, statement, readable=readable)
        return await self._places.run(by, run)
