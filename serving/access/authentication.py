"""Which principal a bearer token names: the holder of a project's token, or a user of the identity provider."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from tandem.serving.access.oidc import Oidc
from tandem.serving.access.rights import Principal
from tandem.serving.access.tokens import PREFIX, Tokens


@dataclass(frozen=True)
class IdentityProviders:
    """All principals that the server can authenticate."""

    tokens: Tokens
    oidc: Oidc | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep the identity provider's keys fresh until the context ends."""
        if self.oidc is None:
            yield
        else:
            async with self.oidc.open():
                yield

    def recent(self, shown: str, *, now: datetime) -> Principal | None:
        """The principal of a bearer token that was accepted a moment ago; None leaves the decision to `whose`."""
        return self.tokens.recent(shown, now=now) if shown.startswith(PREFIX) else None

    def waits(self, shown: str) -> bool:
        """Whether `whose` may take as long as a request to an object store."""
        return shown.startswith(PREFIX) and self.tokens.waits

    def whose(self, shown: str, *, now: datetime) -> Principal | None:
        """The principal of a bearer token; None if the token is not valid. It waits for nothing unless `waits`.

        Raises TokenError, OidcError where that cannot be decided.
        """
        if shown.startswith(PREFIX):
            return self.tokens.whose(shown, now=now)
        return None if self.oidc is None else self.oidc.whose(shown, now=now)
