"""The keys of an identity provider, fetched by one background task: no request ever waits for the provider.

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
from functools import cache
from typing import Any, Final

import httpx
import msgspec
from joserfc import jwk
from joserfc.errors import JoseError

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
