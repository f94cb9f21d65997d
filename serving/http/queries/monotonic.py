"""Monotonic reads: a client that sends back the header of its last answer gets no older one, from any server of the project.

The header names the newest publication and, of each source, the position of the answers so far. It grows with each answer, so a
client keeps only the last one. A caller who may not see positions gets it sealed.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from fastapi import Request
from msgspec import Meta

from tandem.ledger.log.positions import LOG_START, Position, must_await, upper
from tandem.ledger.united_positions import plain
from tandem.serving.access.sealed_text import Seal
from tandem.serving.http.protocol.parameters import LONGEST
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.requests.server import principal_of, server_of
from tandem.serving.read.provenance import Provenance
from tandem.serving.read.selection import BadSelection
from tandem.serving.read.snapshot import Snapshot
from tandem.views.errors import TandemError
from tandem.views.view import View

HEADER: Final = "Tandem-Monotonic"
"""With the value 1, or that of an earlier response, in a request, the response has the next value in it."""


class AnswersSeen(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """The newest publication of a client's answers, and by source the position that they count."""

    publication: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    ends: dict[str, dict[str, dict[str, int]]] = {}  # msgspec copies it

    def holds(self, snapshot: Snapshot, view: View, *, at_the_cut: bool = False) -> bool:
        """Whether answers of a view at a snapshot are not older; `at_the_cut` they count what is below the publication's cut."""
        if snapshot.publication.number < self.publication:
            return False
        snapshot = snapshot.of(view)
        tail = snapshot.tails.get(view.source.name)
        if at_the_cut or tail is None or tail.problem is not None:
            return True  # the answer says so
        tables = snapshot.late(view).tables
        ends = {view.source.name: plain(tail.end, view.source), **{name: of.position for name, of in tables.items()}}
        return not any(must_await(self._end(source), end) for source, end in ends.items())

    def plus(self, answers: Iterable[tuple[View, Provenance]]) -> "AnswersSeen":
        """The same after these answers, too."""
        number, ends = self.publication, dict(self.ends)
        for view, answer in answers:
            number = max(number, answer.publication)
            counted = {view.source.name: answer.realtime, **{name: of.position for name, of in answer.tables.items()}}
            ends |= {source: upper(self._end(source), end).to_json() for source, end in counted.items()}
        return AnswersSeen(number, ends)

    def text(self, seal: Seal | None) -> str:
        """The header's value, sealed for a caller that may not see positions. Raises Problem if it is too long for a header."""
        content = msgspec.json.encode(self)
        text = seal.close(content.decode()) if seal else urlsafe_b64encode(content).decode().rstrip("=")
        if len(text) > LONGEST:
            raise Problem(400, f"{HEADER} would have {len(text)} characters, and the limit is {LONGEST}; leave the header out")
        return text

    def _end(self, source: str) -> Position:
        return Position.from_json(self.ends[source]) if source in self.ends else LOG_START


def monotonic_floor(request: Request) -> AnswersSeen | None:
    """What the client of a request has seen; None if it does not ask for monotonic reads. Raises BadSelection."""
    text = request.headers.get(HEADER)
    if text is None or text == "1":
        return None if text is None else AnswersSeen()
    seal = sealing(request)
    try:
        content = (seal.open(text) or "") if seal else urlsafe_b64decode(text[:LONGEST] + "=" * (-len(text) % 4))
        floor = msgspec.json.decode(content, type=AnswersSeen)
        for end in floor.ends.values():
            Position.from_json(end)
    except (ValueError, msgspec.MsgspecError, TandemError):
        raise BadSelection(f"invalid header {HEADER}; send 1, or its value in the last response") from None
    return floor


def sealing(request: Request) -> Seal | None:
    """What seals the caller's texts; None if it may see positions."""
    return server_of(request).seal if principal_of(request).rights.rows else None
