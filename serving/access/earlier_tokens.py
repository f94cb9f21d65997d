"""Tokens in a file of the state folder, where earlier versions kept them: they move into the journal once."""

import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tandem.ledger.delta.addresses import Tables
from tandem.serving.access import tokens
from tandem.serving.access.rights import Rights
from tandem.serving.access.tokens import Token, TokenError
from tandem.views.errors import TandemError


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    sha256: str
    may: list[str]
    views: list[str] | None
    rows: list[str]
    made: datetime
    expires: datetime


def file_of(state: Path) -> Path:
    """The file of earlier versions. A file without tokens stays: it shows that all of them were revoked."""
    return state / "access" / "tokens.json"


def adopt(state: Path, tables: Tables) -> int:
    """Move the tokens of the file into the journal; returns how many. A kill leaves the file, and the next call goes on.

    A token that the journal has ever had is not added again, so a revoked token stays revoked. Raises TokenError for a file that
    is damaged or that others may read.
    """
    path = file_of(state)
    found = _read(path)
    added = sum(tokens.add(tables, token) for token in found)
    if found:
        path.unlink(missing_ok=True)
    return added


def _read(path: Path) -> list[Token]:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TokenError(f"{path} cannot be read: {error.strerror}") from error
    if mode & 0o077:
        raise TokenError(f"other users can read {path}; run `chmod 600 {path}`")
    try:
        return [_token(one) for one in msgspec.json.decode(content, type=list[_Stored])]
    except (msgspec.MsgspecError, TandemError) as error:
        raise TokenError(f"{path} is damaged ({error}); remove it and create new tokens") from error


def _token(stored: _Stored) -> Token:
    rights = Rights.of(may=stored.may, views=stored.views or (), rows=stored.rows)
    return Token(stored.name, stored.sha256, rights, stored.made.astimezone(UTC), stored.expires.astimezone(UTC))
