"""Who shows a bearer text: the holder of one of the project's tokens, or somebody of the identity provider."""

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

    def at_once(self, shown: str) -> bool:
        """Whether `whose` takes no time: no key has to be fetched."""
        return self.oidc is None or shown.startswith(PREFIX)

    def whose(self, shown: str, *, now: datetime) -> Principal | None:
        """Who shows this; None if nobody known does. Raises TokenError, OidcError: then it cannot be told."""
        if shown.startswith(PREFIX):
            return self.tokens.whose(shown, now=now)
        return None if self.oidc is None else self.oidc.whose(shown, now=now)
