"""Tokens of an identity provider: JWTs of one issuer for one audience, whose keys are at one address.

They are checked as RFC 8725 says: the algorithm is the configured one, whatever the token's header names; keys that a token
contains or points to are ignored; type, issuer, audience and expiry must match.

The keys of an identity provider, fetched by one background task: no request ever waits for the provider.

| when | what happens |
| --- | --- |
| the server starts | one fetch; the start waits for it, at most `START_S` |
| the newest fetch is `refresh_s` old | another fetch: a withdrawn key is refused from then on, even if another key has its id |
| a token does not match the keys | another fetch, at most one per `SPACING_S`, however many such tokens arrive |
| a fetch fails | another after `SPACING_S`; meanwhile the keys of the last successful fetch count |
| that fetch is `stale_s` old | none of its keys counts, so no token can be checked until a fetch succeeds |
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import msgspec
from joserfc import jwk, jws, jwt
from joserfc.errors import JoseError

from tandem.infra import settings
from tandem.serving.access.rights import Principal, Rights, parse_rights
from tandem.serving.access.tokens import PREFIX, Tokens
from tandem.views.errors import TandemError, said_by

START_S: Final = 3.0
FETCH_S: Final = 10.0
SPACING_S: Final = 10.0
LARGEST: Final = 1 << 20
MOST: Final = 100
_KINDS: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}

Keys = Mapping[str | None, jwk.Key]
Fetch = Callable[[str], Awaitable[bytes]]


class OidcError(TandemError, code="identity-provider-failed"):
    """Settings of [serving.oidc] that cannot be used, or keys that cannot be fetched."""


@dataclass
class KeySet:
    """The keys at an address, for any thread; they are fetched while it is `open`, once at a time.

    Args:
        address: where the JWK set is; no other address is asked.
        algorithm: the signature algorithm whose keys are kept.
        refresh_s: age in seconds at which the keys are fetched again.
        stale_s: age in seconds beyond which the keys do not count.
        clock: seconds that never step back.
        fetch: returns the bytes at an address, or raises OidcError.
        told: called where fetches begin to fail, with the reason, where the reason changes, and with None once one succeeds.
    """

    address: str
    algorithm: str
    refresh_s: float
    stale_s: float
    clock: Callable[[], float]
    fetch: Fetch
    told: Callable[[str | None], None] = lambda _: None
    _keys: Keys = field(default_factory=dict, init=False, repr=False)
    _at: float | None = field(default=None, init=False, repr=False)
    _why: str | None = field(default=None, init=False, repr=False)
    _misfit: Callable[[], None] = field(default=lambda: None, init=False, repr=False)

    def find(self, kid: str | None) -> jwk.Key | None:
        """The key of this id, or the only key for a token without an id. Raises OidcError where no keys count."""
        keys, at = self._keys, self._at
        if at is None or self.clock() - at > self.stale_s:
            age = "have not been fetched yet" if at is None else f"were last fetched more than {self.stale_s:g} s ago"
            raise OidcError(f"the keys of the identity provider {age}; try again in a few seconds")
        if kid is not None:
            return keys.get(kid)
        return next(iter(keys.values())) if len(keys) == 1 else None

    def misfit(self) -> None:
        """Ask for another fetch, because a token did not match the keys; returns at once."""
        self._misfit()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Fetch until the context ends; opening waits for the first fetch, but not for long."""
        loop, wanted, first = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

        def misfit() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(wanted.set)

        self._misfit = misfit
        following = asyncio.create_task(self._follow(wanted, first))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(START_S):
                    await first.wait()
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _follow(self, wanted: asyncio.Event, first: asyncio.Event) -> None:
        spacing = min(SPACING_S, self.refresh_s)
        while True:
            wanted.clear()
            fetched = await self._refresh()
            first.set()
            await asyncio.sleep(spacing)
            if fetched:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.refresh_s - spacing):
                        await wanted.wait()

    async def _refresh(self) -> bool:
        """Replace the keys by those at the address; returns whether that succeeded."""
        began, why = self.clock(), None
        try:
            async with asyncio.timeout(FETCH_S):
                content = await self.fetch(self.address)
            # Not in the loop: a large document takes milliseconds.
            keys = await asyncio.to_thread(read_keys, content, self.algorithm)
        except TimeoutError:
            why = f"the keys at {self.address} cannot be fetched: incomplete answer after {FETCH_S:g} s"
        except OidcError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - whatever the address sends, the next fetch has to come
            why = f"the keys at {self.address} cannot be fetched: {said_by(error)}"
        else:
            self._keys, self._at = keys, began
        if why != self._why:
            self.told(why)
        self._why = why
        return why is None


async def fetch(address: str) -> bytes:
    """The bytes at an address, at most `LARGEST`; redirects are not followed. Raises OidcError."""
    try:
        async with (
            httpx.AsyncClient(timeout=FETCH_S, follow_redirects=False, trust_env=False, verify=_trusted()) as client,
            client.stream("GET", address, headers={"Accept": "application/json", "Accept-Encoding": "identity"}) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                raise OidcError(f"the keys at {address} cannot be fetched: status {answer.status_code}")
            content = bytearray()
            async for part in answer.aiter_raw():
                content += part
                if len(content) > LARGEST:
                    raise OidcError(f"the keys at {address} cannot be fetched: more than {LARGEST} bytes")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise OidcError(f"the keys at {address} cannot be fetched: {said_by(error)}") from error
    return bytes(content)


@cache
def _trusted() -> ssl.SSLContext:
    """Created once: it takes tens of milliseconds, in which the event loop would answer no request."""
    return httpx.create_ssl_context(trust_env=False)


def read_keys(content: bytes, algorithm: str) -> Keys:
    """The keys of a JWK set that verify signatures of this algorithm, by id; others are ignored (RFC 7517, 5).

    Raises OidcError for bytes that are not a JWK set, and for a set with more than `MOST` such keys.
    """
    try:
        listed = msgspec.json.decode(content, type=dict[str, Any])["keys"]
        suited = [key for key in listed if _suits(key, algorithm)]
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise OidcError(f"the provider's keys are not a JWK set: {said_by(error)}") from error
    if len(suited) > MOST:
        raise OidcError(f"the provider's JWK set has {len(suited)} keys for {algorithm}; at most {MOST} are allowed")
    found: dict[str | None, jwk.Key] = {}
    for key in suited:
        with suppress(JoseError, KeyError, TypeError, ValueError):
            found[key.get("kid")] = jwk.import_key(key)
    return found


def _suits(key: Any, algorithm: str) -> bool:
    return (
        isinstance(key, dict)
        and isinstance(key.get("kid"), str | None)
        and key.get("kty") == _KINDS[algorithm[:2]]
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
    )


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
