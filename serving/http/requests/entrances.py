"""Where requests reach one of several workers: from clients, and from other workers."""

from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from serving.http.requests.gate import UNANSWERED, bearer
from serving.http.requests.middleware import Wire
from serving.http.requests.proper import improper
from serving.http.workers.peers import CLIENT, OWN, Peers


@dataclass(frozen=True)
class Outside:
    """What clients reach: the application, but requests that another worker owns are passed on."""

    peers: Peers
    wire: Wire

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or (owner := self.peers.owner(scope)) == self.peers.number or self._refused(scope):
            await self.wire(scope, receive, send)
            return
        began = self.wire.clock()
        unanswered = await self.peers.forward(owner, scope, receive, send)
        if unanswered is not None:
            scope.setdefault("state", {})[UNANSWERED] = unanswered
            await self.wire.through(began, scope, receive, send)

    def _refused(self, scope: Scope) -> bool:
        """Whether any worker refuses a request, so that its body need not be read."""
        shown = next((value for name, value in scope["headers"] if name == b"authorization"), b"").decode("latin-1")
        return bearer(shown) is None or improper(scope, self.peers.most_body) is not None


@dataclass(frozen=True)
class Inside:
    """What other workers reach: the application for requests of clients, which they pass on, and their own questions."""

    peers: Peers
    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        if OWN in headers and CLIENT not in headers:
            await self.peers.asked(scope["path"])(scope, receive, send)
            return
        scope["client"] = (headers.get(CLIENT, b"").decode("latin-1"), 0)
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != CLIENT]
        await self.app(scope, receive, send)
