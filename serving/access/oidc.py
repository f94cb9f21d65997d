"""Tokens of an identity provider: signed JWTs of one issuer for one audience, whose keys come from one address.

Checked as RFC 8725 says: the algorithm is the configured one whatever the token's header names, keys that a token brings or
points to are not looked at, issuer, audience and expiry have to be there and fit.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address
from math import inf
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import msgspec
from joserfc import jwk, jws, jwt
from joserfc.errors import JoseError

from infra import settings
from serving.access.rights import Principal, Rights, parse_rights
from views.errors import TandemError

_KINDS: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_LARGEST: Final = 1 << 20
_FETCH_S: Final = 5.0
_REFRESH_S: Final = 60.0
_RETRY_S: Final = 5.0


class OidcError(TandemError):
    """Settings of [serving.oidc] that cannot be used, or keys that cannot be had."""


@dataclass(frozen=True)
class Provider:
    """Whose tokens are taken. `rights` are by value of `claim`; the first of them that a token's claim has or is, counts."""

    issuer: str
    audience: str
    keys: str
    algorithm: str
    leeway_s: int
    claim: str
    rights: Mapping[str, Rights] = field(hash=False)


def provider(oidc: settings.Oidc) -> Provider | None:
    """The provider of the settings; None if none is configured. Raises OidcError, naming the key."""
    if not oidc.issuer:
        return None
    for name, value in (("audience", oidc.audience), ("keys", oidc.keys), ("claim", oidc.claim), ("rights", oidc.rights)):
        if not value:
            raise OidcError(f"[serving.oidc] has an issuer but no {name}: audience, keys, claim and rights go with it")
    address = urlsplit(oidc.keys)
    if address.scheme != "https" and not (address.scheme == "http" and is_loopback(address.hostname or "")):
        raise OidcError(f"serving.oidc.keys = {oidc.keys!r} is not safe: it must be an https address, or http on loopback")
    rights = {}
    for value, words in oidc.rights.items():
        try:
            rights[value] = parse_rights(words)
        except TandemError as error:
            raise OidcError(f"serving.oidc.rights of {value!r}: {error}") from error
    return Provider(oidc.issuer, oidc.audience, oidc.keys, oidc.algorithm, oidc.leeway_s, oidc.claim, rights)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and nothing else."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def fetch(address: str) -> bytes:
    """What is at the address, and at no other that it points to. Raises OidcError."""
    try:
        with httpx.Client(timeout=_FETCH_S, follow_redirects=False, trust_env=False) as client:
            answer = client.get(address)
    except httpx.HTTPError as error:
        raise OidcError(f"the keys at {address} cannot be had: {error}") from error
    if answer.status_code != httpx.codes.OK or len(answer.content) > _LARGEST:
        raise OidcError(f"the keys at {address} cannot be had: status {answer.status_code}, {len(answer.content)} bytes")
    return answer.content


@dataclass
class Oidc:
    """Says who shows a provider's token; keeps the provider's keys and asks for them anew for one that it does not know.

    That is at most once a minute, however many unknown ones are shown, and every five seconds while it fails. `clock` gives
    seconds that never step back. For any number of threads.
    """

    provider: Provider
    clock: Callable[[], float]
    fetch: Callable[[str], bytes] = fetch
    _keys: dict[str | None, jwk.Key] = field(default_factory=dict, init=False, repr=False)
    _next: float = field(default=-inf, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def whose(self, shown: str, *, now: datetime) -> Principal | None:
        """Who shows this token; None if it is not valid or its claims give no right. Raises OidcError without keys."""
        try:
            kid = jws.extract_compact(shown.encode()).headers().get("kid")
        except (JoseError, ValueError):
            return None
        key = self._key(kid if isinstance(kid, str) else None)
        if key is None:
            return None
        expected = self.provider
        registry = jwt.JWTClaimsRegistry(
            now=int(now.timestamp()),
            leeway=expected.leeway_s,
            iss={"essential": True, "value": expected.issuer},
            aud={"essential": True, "value": expected.audience},
            sub={"essential": True},
            exp={"essential": True},
        )
        try:
            claims = jwt.decode(shown, key, algorithms=[expected.algorithm]).claims
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

    def _key(self, kid: str | None) -> jwk.Key | None:
        """The provider's key of this id; of one without id its only key. Who shows a known one waits for nobody."""
        found = self._known(kid)
        if found is None:
            with self._lock:
                if self._known(kid) is None and self.clock() >= self._next:
                    self._next = self.clock() + _RETRY_S
                    self._keys = _read(self.fetch(self.provider.keys), self.provider)
                    self._next = self.clock() + _REFRESH_S
            found = self._known(kid)
        if not self._keys:
            raise OidcError(f"the keys at {self.provider.keys} are not there yet; try again in a few seconds")
        return found

    def _known(self, kid: str | None) -> jwk.Key | None:
        if kid is not None:
            return self._keys.get(kid)
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None


def _read(content: bytes, expected: Provider) -> dict[str | None, jwk.Key]:
    """The keys of a JWK set that can check the algorithm's signatures, by id; others are not for us (RFC 7517, 5)."""
    try:
        found = msgspec.json.decode(content, type=dict[str, Any])["keys"]
        suited = [key for key in found if key.get("kty") == _KINDS[expected.algorithm[:2]] and key.get("use", "sig") == "sig"]
        return {key.get("kid"): jwk.import_key(key) for key in suited}
    except (msgspec.MsgspecError, JoseError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise OidcError(f"what is at {expected.keys} is no set of keys: {error}") from error
