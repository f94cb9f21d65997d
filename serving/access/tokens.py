"""The project's own tokens: random secrets, of which only the hash is stored, in one file of the state folder.

A secret has 256 random bits, which nobody can guess, so one SHA-256 hides it as well as a slow salted hash would. Those are for
passwords, which have few bits, and would slow down every request.
"""

import hmac
import os
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from infra.files import atomic_files
from ledger.delta import locks
from serving.access.rights import Principal, Rights
from views.errors import TandemError, listed

PREFIX: Final = "tandem_"
_BYTES: Final = 32
_PATIENCE_S: Final = 10


class TokenError(TandemError):
    """A token that cannot be created or revoked, or a file of tokens that cannot be used."""


@dataclass(frozen=True)
class Token:
    """The SHA-256 of a secret in hexadecimal, with its rights until it expires."""

    name: str
    digest: str
    rights: Rights
    made: datetime
    expires: datetime


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    sha256: str
    may: list[str]
    views: list[str] | None
    rows: list[str]
    made: datetime
    expires: datetime


def file_of(state: Path) -> Path:
    """The file of a project's tokens."""
    return state / "access" / "tokens.json"


def secret(random: Callable[[int], bytes]) -> str:
    """A new secret of 256 bits; `random` returns this many unpredictable bytes."""
    return PREFIX + urlsafe_b64encode(random(_BYTES)).decode().rstrip("=")


def digest(text: str) -> str:
    """The stored hash of a secret."""
    return sha256(text.encode()).hexdigest()


def read(path: Path) -> tuple[Token, ...]:
    """All tokens, in the order of creation; none without a file. Raises TokenError if it is damaged or others may read it."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise TokenError(f"{path} cannot be read: {error.strerror}") from error
    if mode & 0o077:
        raise TokenError(f"other users can read {path}; run `chmod 600 {path}`")
    try:
        return tuple(_token(one) for one in msgspec.json.decode(content, type=list[_Stored]))
    except (msgspec.MsgspecError, TandemError) as error:
        raise TokenError(f"{path} is damaged ({error}); remove it and create new tokens") from error


def create(
    path: Path, name: str, rights: Rights, *, expires: datetime, now: datetime, random: Callable[[int], bytes]
) -> tuple[Token, str]:
    """Add a token. Its secret is returned here and never again. Raises TokenError if the name is in use."""
    if not name.isascii() or not name.isprintable() or not name or len(name) > 64:
        raise TokenError(f"invalid token name {name!r}; expected 1 to 64 printable ASCII characters")
    if expires <= now:
        raise TokenError(f"a token that expires at {expires.isoformat()} would never be valid; now is {now.isoformat()}")
    shown = secret(random)
    token = Token(name, digest(shown), rights, now, expires)
    with _changing(path, now) as tokens:
        if any(one.name == name for one in tokens):
            raise TokenError(f"token {name!r} already exists; revoke it or choose another name")
        _write(path, [*tokens, token])
    return token, shown


def revoke(path: Path, name: str, *, now: datetime) -> Token:
    """Delete a token, so that no later request is accepted with it. Raises TokenError if no token has this name."""
    with _changing(path, now) as tokens:
        found = next((one for one in tokens if one.name == name), None)
        if found is None:
            raise TokenError(f"no token {name!r}; tokens: {listed(name, (one.name for one in tokens))}")
        _write(path, [one for one in tokens if one is not found])
    return found


@dataclass
class Tokens:
    """The tokens in a file that other processes change; every check sees at least what was there when it began."""

    path: Path
    _seen: tuple[tuple[int, int, int] | None, tuple[Token, ...]] = field(default=(None, ()), init=False, repr=False)

    def whose(self, shown: str, *, now: datetime) -> Principal | None:
        """The principal of a secret; None if it is not a valid token's. Raises TokenError, after which no token is accepted."""
        known, found = digest(shown), None
        for token in self._look():  # all of them, so that the duration does not reveal which one matches
            if hmac.compare_digest(token.digest, known):
                found = token
        return None if found is None or found.expires <= now else Principal("token", found.name, found.rights, found.expires)

    def _look(self) -> tuple[Token, ...]:
        """The tokens that this check read, not those of another thread that began earlier and may have seen an older file."""
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            self._seen = None, ()
            return ()
        # A change is a new file in the place of the old one, so one of these differs.
        signature = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        seen, tokens = self._seen
        if signature != seen:
            tokens = read(self.path)
            self._seen = signature, tokens
        return tokens


@contextmanager
def _changing(path: Path, now: datetime) -> Iterator[Sequence[Token]]:
    """The tokens, while no other process changes them."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locks.own() as acquire:
        locks.hold(
            path.with_suffix(".lock"),
            acquire,
            what="tandem token",
            pid=os.getpid(),
            at=now,
            patience=_PATIENCE_S,
            say=lambda _: None,
        )
        yield read(path)


def _write(path: Path, tokens: Sequence[Token]) -> None:
    """Replace the file; a crash leaves the old one or the new one."""
    content = msgspec.json.format(msgspec.json.encode([_stored(token) for token in tokens])) + b"\n"
    atomic_files.replace(path, content, private=True, durable=True)


def _stored(token: Token) -> _Stored:
    return _Stored(token.name, token.digest, made=token.made, expires=token.expires, **token.rights.to_json())


def _token(stored: _Stored) -> Token:
    rights = Rights.of(may=stored.may, views=stored.views or (), rows=stored.rows)
    return Token(stored.name, stored.sha256, rights, stored.made.astimezone(UTC), stored.expires.astimezone(UTC))
