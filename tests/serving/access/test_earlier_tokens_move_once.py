"""Tokens in a file of an earlier version become rows of the journal, once, and are never given back after they were revoked."""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from tandem.cli.run.serve import first_token
from tandem.ledger.delta.addresses import Tables
from tandem.serving.access import tokens
from tandem.serving.access.earlier_tokens import adopt
from tandem.serving.access.rights import Rights
from tandem.serving.access.tokens import TokenError, Tokens
from tests.serving.world import NOON

SECRET = tokens.secret(os.urandom)
STORED = {
    "name": "dashboard",
    "sha256": tokens.digest(SECRET),
    "may": ["read", "sql"],
    "views": ["sales"],
    "rows": ["shop=1"],
    "made": NOON.isoformat(),
    "expires": (NOON + timedelta(days=90)).isoformat(),
}


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(str(tmp_path / "tables"))


def left(state: Path, content: str) -> Path:
    """A file as an earlier version wrote it."""
    path = state / "access" / "tokens.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    path.chmod(0o600)
    return path


def test_without_a_file_nothing_is_done(tmp_path: Path, tables: Tables) -> None:
    assert adopt(tmp_path, tables) == 0
    assert not Path(tables.root).exists()


def test_a_token_of_the_file_is_valid_with_its_rights_and_the_file_goes(tmp_path: Path, tables: Tables) -> None:
    path = left(tmp_path, json.dumps([STORED]))
    assert adopt(tmp_path, tables) == 1
    assert not path.exists()
    found = Tokens(tables).whose(SECRET, now=NOON)
    assert found is not None
    assert (found.name, found.rights) == ("dashboard", Rights.of(may=["read", "sql"], views=["sales"], rows=["shop=1"]))
    assert adopt(tmp_path, tables) == 0


def test_what_was_revoked_meanwhile_stays_revoked(tmp_path: Path, tables: Tables) -> None:
    """As after a kill between the journal and the file, or where a backup brought the file back."""
    left(tmp_path, json.dumps([STORED]))
    adopt(tmp_path, tables)
    tokens.revoke(tables, "dashboard", now=NOON)
    left(tmp_path, json.dumps([STORED]))
    assert adopt(tmp_path, tables) == 0
    assert Tokens(tables).whose(SECRET, now=NOON) is None


def test_of_two_tokens_of_one_name_the_journals_stays(tmp_path: Path, tables: Tables) -> None:
    _, mine = tokens.create(
        tables, "dashboard", Rights.of(may=["read"]), expires=NOON + timedelta(days=1), now=NOON, random=os.urandom
    )
    left(tmp_path, json.dumps([STORED]))
    assert adopt(tmp_path, tables) == 0
    assert Tokens(tables).whose(mine, now=NOON) is not None
    assert Tokens(tables).whose(SECRET, now=NOON) is None


def test_a_file_that_others_may_read_is_refused_and_stays(tmp_path: Path, tables: Tables) -> None:
    path = left(tmp_path, json.dumps([STORED]))
    path.chmod(0o640)
    with pytest.raises(TokenError, match="chmod 600"):
        adopt(tmp_path, tables)
    assert path.exists()
    assert tokens.read(tables) == ()


def test_where_all_were_revoked_no_first_token_is_created(tmp_path: Path, tables: Tables) -> None:
    """It would have all rights, and nobody asked for it."""
    left(tmp_path, "[]")
    for _ in range(2):
        assert adopt(tmp_path, tables) == 0
        assert first_token(tmp_path, tables) is None
    assert not tokens.ever(tables)


@pytest.mark.parametrize("content", ["", "{", "[{}]", json.dumps([{**STORED, "may": ["everything"]}])])
def test_a_damaged_file_is_told_and_stays(tmp_path: Path, tables: Tables, content: str) -> None:
    path = left(tmp_path, content)
    with pytest.raises(TokenError, match=r"tokens\.json is damaged"):
        adopt(tmp_path, tables)
    assert path.exists()
