"""Tokens of an identity provider: JWTs of one issuer for one audience, whose keys are at one address.

They are checked as RFC 8725 says: the algorithm is the configured one, whatever the token's header names; keys that a token
contains or points to are ignored; type, issuer, audience and expiry must match.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from joserfc import jws, jwt
from joserfc.errors import JoseError

from tandem.infra import settings
from tandem.serving.access.oidc_keys import Fetch, KeySet, OidcError, fetch
from tandem.serving.access.rights import Principal, Rights, parse_rights
from tandem.views.errors import TandemError

NO_TYPE: Final = "none"
"""How settings write the type of a token whose header has no `typ`."""

_LONGEST: Final = 16 << 10


@dataclass(frozen=True)
class Provider:
    """The accepted identity provider.

    `rights` are by value of `claim`: the first value counts that a token's claim contains or equals. `types` are the accepted
    values of `typ`, in lower case and without `application/`.
    """

    issuer: str
    audience: str
    keys: str
    algorithm: str
    types: frozenset[str]
    leeway_s: int
    refresh_s: int
    stale_s: int
    claim: str
    rights: Mapping[str, Rights] = field(hash=False)


def provider(oidc: settings.OidcSettings) -> Provider | None:
    """The identity provider in the settings; None if none is configured. Raises OidcError, which names the setting."""
    if not oidc.issuer:
        return None
    needed = (("audience", oidc.audience), ("keys", oidc.keys), ("claim", oidc.claim), ("rights", oidc.rights))
    for name, value in needed:
        if not value:
            raise OidcError(f"[serving.oidc] has an issuer but no {name}; it also needs audience, keys, claim and rights")
    address = urlsplit(oidc.keys)
    if address.scheme != "https" and not (address.scheme == "http" and is_loopback(address.hostname or "")):
        raise OidcError(f"serving.oidc.keys = {oidc.keys!r} is not safe; expected an https address, or http on loopback")
    if oidc.stale_s < oidc.refresh_s:
        raise OidcError(
            f"serving.oidc.stale_s = {oidc.stale_s} is below refresh_s = {oidc.refresh_s}, so keys would expire before they are "
            "fetched again; set it to at least refresh_s"
        )
    types = frozenset(_type_of(part.strip()) for part in oidc.typ.split(",") if part.strip())
    if not types:
        raise OidcError(f"serving.oidc.typ = {oidc.typ!r} accepts no token; list types, separated by commas, such as at+jwt")
    rights = {}
    for value, words in oidc.rights.items():
        try:
            rights[value] = parse_rights(words)
        except TandemError as error:
            raise OidcError(f"serving.oidc.rights of {value!r}: {error}") from error
    return Provider(
        issuer=oidc.issuer,
        audience=oidc.audience,
        keys=oidc.keys,
        algorithm=oidc.algorithm,
        types=types,
        leeway_s=oidc.leeway_s,
        refresh_s=oidc.refresh_s,
        stale_s=oidc.stale_s,
        claim=oidc.claim,
        rights=rights,
    )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and no other."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True)
class Oidc:
    """Authenticates tokens of the identity provider, with keys that are fetched in the background. For any number of threads."""

    provider: Provider
    keys: KeySet

    @classmethod
    def of(
        cls,
        provider: Provider,
        clock: Callable[[], float],
        *,
        fetch: Fetch = fetch,
        told: Callable[[str | None], None] = lambda _: None,
    ) -> "Oidc":
        """Arguments as KeySet has them."""
        keys = KeySet(provider.keys, provider.algorithm, provider.refresh_s, provider.stale_s, clock, fetch, told)
        return cls(provider, keys)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep the provider's keys fresh until the context ends."""
        async with self.keys.open():
            yield

    def whose(self, shown: str, *, now: datetime) -> Principal | None:
        """The principal of a token; None if it is not valid or its claims give no right. Raises OidcError without keys.

        It waits for nothing: a token that does not match the cached keys is refused, and the keys are fetched again afterwards.
        """
        expected = self.provider
        try:
            header = jws.extract_compact(shown.encode()).headers() if len(shown) <= _LONGEST else {}
        except (JoseError, ValueError):
            return None
        typ = _type_of(header["typ"]) if "typ" in header else NO_TYPE
        if typ not in expected.types or header.get("alg") != expected.algorithm:
            return None
        kid = header.get("kid")
        key = self.keys.find(kid if isinstance(kid, str) else None)
        try:
            claims = None if key is None else jwt.decode(shown, key, algorithms=[expected.algorithm]).claims
        except (JoseError, ValueError, TypeError):
            claims = None
        if claims is None:
            self.keys.misfit()
            return None
        registry = jwt.JWTClaimsRegistry(
            now=int(now.timestamp()),
            leeway=expected.leeway_s,
            iss={"essential": True, "value": expected.issuer},
            aud={"essential": True, "value": expected.audience},
            sub={"essential": True},
            exp={"essential": True},
        )
        try:
            registry.validate(claims)
            expires = datetime.fromtimestamp(claims["exp"], UTC)
        except (JoseError, ValueError, TypeError, OverflowError, OSError):
            return None
        rights, subject = self._rights(claims), claims["sub"]
        return None if rights is None or not isinstance(subject, str) else Principal("oidc", subject, rights, expires)

    def _rights(self, claims: Mapping[str, Any]) -> Rights | None:
        held = claims.get(self.provider.claim)
        values = [held] if isinstance(held, str) else held if isinstance(held, list) else []
        return next((rights for value, rights in self.provider.rights.items() if value in values), None)


def _type_of(typ: Any) -> str:
    """A media type without `application/`, which a header may leave out; case makes no difference (RFC 7515, 4.1.9)."""
    return typ.lower().removeprefix("application/") if isinstance(typ, str) else ""
