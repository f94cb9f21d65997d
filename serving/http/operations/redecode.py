"""Quarantined records, decoded again with the project folder's definitions: in a child, so the server runs no foreign code."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tandem.infra.logs.telling import without
from tandem.serving.access.rights import Principal
from tandem.serving.http.operations.command import TandemCommand, document_of
from tandem.serving.http.protocol.problem import Problem

_LINES = 20


@dataclass
class Redecode:
    """One run at a time; `hidden` are secrets that no answer shows. For one event loop."""

    tandem: TandemCommand
    hidden: frozenset[str] = frozenset()
    _busy: bool = field(default=False, init=False, repr=False)

    async def run(self, options: Sequence[str], *, by: Principal) -> Any:
        """The document of `tandem quarantine --retry`; a caller that is cancelled ends the command. Raises Problem 400, 409,
        503.
        """
        if self._busy:
            raise Problem(409, "another request is decoding records; try again later")
        child, lines = self.tandem.child("quarantine", ["--retry", *options], by=by), deque[str](maxlen=_LINES)
        self._busy = True
        running = asyncio.get_running_loop().run_in_executor(None, child.run, lines.append)
        running.add_done_callback(self._over)
        try:
            ended = await asyncio.shield(running)
        except asyncio.CancelledError:
            child.stop()
            raise
        except OSError as error:
            raise Problem(503, f"cannot start the command: {error.strerror}") from error
        if ended.printed is None:
            raise Problem(400, "the result is too large; lower limit")
        document = without(document_of(ended.printed), self.hidden)
        if ended.code or not isinstance(document, dict):
            told = document.get("error") if isinstance(document, dict) else without(" ".join(lines), self.hidden)
            raise Problem(503, f"the records cannot be decoded: {told or f'exit code {ended.code}'}")
        return document

    def _over(self, _: object) -> None:
        self._busy = False
