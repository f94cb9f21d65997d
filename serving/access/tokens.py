"""The project's own tokens: random secrets, of which only the hash is stored, in the journal `control/tokens`.

A secret has 256 random bits, which nobody can guess, so one SHA-256 hides it as well as a slow salted hash would. Those are for
passwords, which have few bits, and would slow down every request. A row creates or revokes a token and never changes, so the
journal records which rights each token had and when.
"""

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from itertools import count
from threading import Lock
from typing import Final, TypeAlias

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.delta.journal import Journal, JournalSnapshot, Row
from tandem.ledger.delta.watched_table import Watched
from tandem.serving.access.rights import Principal, Rights
from tandem.views.errors import TandemError, listed

PREFIX: Final = "tandem_"
FRESH_S: Final = 0.05
"""Seconds for which a check is valid: a revoked token is refused that long after its revocation at the latest.

It is as long as the default pause between two polls for new answers, and shorter than a command that revokes a token takes.
A check of the files at each request takes as long as finding a row.
"""
_BYTES: Final = 32
SCHEMA: Final = pa.schema(
    [
        ("what", pa.string()),  # created, revoked
        ("name", pa.string()),
        ("sha256", pa.string()),
        ("rights", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("expires", pa.timestamp("us", "UTC")),
    ]
)


class TokenError(TandemError, code="token-refused"):
    """A token that cannot be created or revoked, or tokens that cannot be read."""


@dataclass(frozen=True)
class AccessToken:
    """The SHA-256 of a secret in hexadecimal, with its rights until it expires."""

    name: str
    digest: str
    rights: Rights
    made: datetime
    expires: datetime


_Accepted: TypeAlias = tuple[float, dict[str, Principal]]
"""Principals by the digest of their secrets, and when the first of the reads began that found them."""


def secret(random: Callable[[int], bytes]) -> str:
    """A new secret of 256 bits; `random` returns this many unpredictable bytes."""
    return PREFIX + urlsafe_b64encode(random(_BYTES)).decode().rstrip("=")


def digest(text: str) -> str:
    """The stored hash of a secret."""
    return sha256(text.encode()).hexdigest()


def read(tables: Tables) -> tuple[AccessToken, ...]:
    """The tokens that are not revoked, in the order of creation. Raises TokenError if they cannot be read."""
    return Tokens(tables).read()


def ever(tables: Tables) -> bool:
    """Whether a token was ever created, be it revoked since. Raises Unreadable."""
    return _journal(tables).read().newest() is not None


def create(
    tables: Tables, name: str, rights: Rights, *, expires: datetime, now: datetime, random: Callable[[int], bytes]
) -> tuple[AccessToken, str]:
    """Add a token. Its secret is returned here and never again. Raises TokenError if the name is in use."""
    if not name.isascii() or not name.isprintable() or not name or len(name) > 64:
        raise TokenError(f"invalid token name {name!r}; expected 1 to 64 printable ASCII characters")
    if expires <= now:
        raise TokenError(f"a token that expires at {expires.isoformat()} would never be valid; now is {now.isoformat()}")
    shown = secret(random)
    token = AccessToken(name, digest(shown), rights, now, expires)

    def row(snapshot: JournalSnapshot) -> Row:
        if any(one.name == name for one in _tokens(snapshot)):
            raise TokenError(f"token {name!r} already exists; revoke it or choose another name")
        return _created(token)

    _journal(tables).add(row)
    return token, shown


def revoke(tables: Tables, name: str, *, now: datetime) -> AccessToken:
    """Revoke a token, so that no later request is accepted with it. Raises TokenError if no token has this name."""
    found: list[AccessToken] = []

    def row(snapshot: JournalSnapshot) -> Row:
        tokens = _tokens(snapshot)
        found[:] = [one for one in tokens if one.name == name]
        if not found:
            raise TokenError(f"no token {name!r}; tokens: {listed(name, (one.name for one in tokens))}")
        return {"what": "revoked", "name": name, "sha256": None, "rights": None, "at": now, "expires": None}

    _journal(tables).add(row)
    return found[0]


@dataclass
class Tokens:
    """The tokens of a project, which other processes change; every check sees at least what was there when it began.

    With a `clock` of monotonic seconds, a secret that was accepted is accepted again for `FRESH_S` from the beginning of the read
    that found it, without another read. For any other secret the tokens are read.
    """

    tables: Tables
    clock: Callable[[], float] | None = None
    _seen: Watched[tuple[AccessToken, ...]] = field(init=False, repr=False)
    _turn: Lock = field(default_factory=Lock, init=False, repr=False)
    _tickets: "count[int]" = field(default_factory=lambda: count(1), init=False, repr=False)
    _last: tuple[int, tuple[AccessToken, ...]] = field(default=(0, ()), init=False, repr=False)
    _accepted: "_Accepted" = field(default_factory=lambda: (float("-inf"), {}), init=False, repr=False)

    def __post_init__(self) -> None:
        self._seen = _journal(self.tables).watched(_tokens)

    @property
    def waits(self) -> bool:
        """Whether `whose` may wait for a server that keeps the tables; in a folder it makes two calls to the file system."""
        return not self.tables.local

    def recent(self, shown: str, *, now: datetime) -> Principal | None:
        """The principal of a secret that was accepted recently, without a read; None leaves the decision to `whose`."""
        found = self._still(digest(shown))
        return None if found is None or found.expires <= now else found

    def whose(self, shown: str, *, now: datetime) -> Principal | None:
        """The principal of a secret; None if it is not a valid token's. Raises TokenError if the tokens cannot be read."""
        known = digest(shown)
        found = self._still(known)
        if found is None:
            began = 0.0 if self.clock is None else self.clock()
            for token in self.read():  # all of them, so that the duration does not reveal which one matches
                if hmac.compare_digest(token.digest, known):
                    found = Principal("token", token.name, token.rights, token.expires)
            if found is not None and self.clock is not None:
                self._accept(began, known, found)
        return None if found is None or found.expires <= now else found

    def _still(self, known: str) -> Principal | None:
        """The principal of a digest that was found so recently that it is not looked for again.

        The place of a digest in the dictionary depends on a secret of the process, and nobody can choose a digest, so how long
        this takes reveals nothing of other tokens.
        """
        at, accepted = self._accepted
        return accepted.get(known) if self.clock is not None and self.clock() - at < FRESH_S else None

    def _accept(self, began: float, known: str, principal: Principal) -> None:
        at, accepted = self._accepted
        if began < at:
            return  # beside what a later read found, in another thread, it would be kept too long
        # Principals that an earlier read found are not kept longer because of this one.
        self._accepted = (at, {**accepted, known: principal}) if began - at < FRESH_S else (began, {known: principal})

    def read(self) -> tuple[AccessToken, ...]:
        """The tokens at a moment of this call. Raises TokenError.

        Threads take turns. Those that wait share the next read, so slow tables delay a check by at most two reads.
        """
        ticket = next(self._tickets)
        with self._turn:
            began, found = self._last
            if began > ticket:
                return found
            began = next(self._tickets)
            try:
                found = self._seen.read()
            except Unreadable as error:
                raise TokenError(f"the tokens cannot be read: {error}") from error
            self._last = began, found
            return found


def _journal(tables: Tables) -> Journal:
    return Journal(tables, tables.control("tokens"), SCHEMA)


def _tokens(snapshot: JournalSnapshot) -> tuple[AccessToken, ...]:
    """The tokens that are not revoked."""
    found: dict[str, AccessToken] = {}
    for row in snapshot.rows():
        if row["what"] == "revoked":
            found.pop(row["name"], None)
        else:
            found[row["name"]] = _token(row)
    return tuple(found.values())


def _created(token: AccessToken) -> Row:
    rights = json.dumps(token.rights.to_json())
    return {
        "what": "created",
        "name": token.name,
        "sha256": token.digest,
        "rights": rights,
        "at": token.made,
        "expires": token.expires,
    }


def _token(row: Row) -> AccessToken:
    stored = json.loads(row["rights"])
    rights = Rights.of(may=stored["may"], views=stored["views"] or (), rows=stored["rows"])
    return AccessToken(row["name"], row["sha256"], rights, row["at"], row["expires"])
