"""Who shows a bearer text: the holder of one of the project's tokens, or somebody of the identity provider."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from serving.access.oidc import Oidc
from serving.access.rights import Principal
from serving.access.tokens import PREFIX, Tokens


@dataclass(frozen=True)
class Identities:
    """All who can be known here."""

    tokens: Tokens
    oidc: Oidc | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep what is needed to know them fresh until the context ends."""
        if self.oidc is None:
            yield
        else:
            async with self.oidc.open():
                yield

    def whose(self, shown: str, *, now: datetime) -> Principal | None:
        """Who shows this; None if nobody known does; waits for nothing. Raises TokenError, OidcError: then it cannot be told."""
        if shown.startswith(PREFIX):
            return self.tokens.whose(shown, now=now)
        return None if self.oidc is None else self.oidc.whose(shown, now=now)
