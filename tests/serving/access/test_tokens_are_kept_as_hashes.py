"""A token's secret is known to its holder alone; the file says what it allows, and no process loses another's change."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from infra.folders import ROOT
from serving.access import tokens
from serving.access.rights import Rights
from serving.access.tokens import TokenError, Tokens
from tests.serving.world import NOON

READ = Rights.of(may=["read"])
LATER = NOON + timedelta(days=1)


def made(path: Path, name: str = "one", *, rights: Rights = READ) -> str:
    return tokens.create(path, name, rights, expires=LATER, now=NOON, random=os.urandom)[1]


def test_the_file_has_no_secret_and_is_private(tmp_path: Path) -> None:
    path = tokens.file_of(tmp_path)
    secret = made(path)
    assert secret.removeprefix(tokens.PREFIX) not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert len(secret) - len(tokens.PREFIX) == 43  # 256 bits in base64


def test_a_secret_authenticates_until_it_expires(tmp_path: Path) -> None:
    path = tokens.file_of(tmp_path)
    rights = Rights.of(may=["read", "sql"], views=["per_page"], rows=["page=/a"])
    secret, other = made(path, rights=rights), made(path, "other")
    known = Tokens(path)
    found = known.whose(secret, now=NOON)
    assert found is not None
    assert (found.name, found.rights) == ("one", rights)
    assert (again := known.whose(other, now=NOON)) is not None
    assert again.name == "other"
    assert known.whose(secret, now=LATER - timedelta(microseconds=1)) is not None
    assert known.whose(secret, now=LATER) is None


@pytest.mark.parametrize("change", [lambda text: text[:-1], lambda text: text + "A", str.upper, lambda _: tokens.PREFIX])
def test_any_other_secret_is_refused(tmp_path: Path, change) -> None:
    path = tokens.file_of(tmp_path)
    secret = made(path)
    assert Tokens(path).whose(change(secret), now=NOON) is None
    assert Tokens(path).whose(tokens.digest(secret), now=NOON) is None
    assert Tokens(tmp_path / "none").whose(secret, now=NOON) is None


def test_a_change_counts_at_the_next_check(tmp_path: Path) -> None:
    path = tokens.file_of(tmp_path)
    known = Tokens(path)
    secret = made(path)
    assert known.whose(secret, now=NOON) is not None
    tokens.revoke(path, "one", now=NOON)
    assert known.whose(secret, now=NOON) is None
    assert known.whose(made(path), now=NOON) is not None
    path.unlink()
    assert known.whose(secret, now=NOON) is None


def test_a_check_that_began_before_a_revocation_is_not_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends in another thread, with the file as it was, at any moment of a look that began afterwards."""
    path = tokens.file_of(tmp_path)
    secret, known = made(path), Tokens(path)
    began, goes_on = Event(), Event()

    def slowly(file: Path) -> tuple[tokens.Token, ...]:
        found = tokens_read(file)
        if not began.is_set():
            began.set()
            assert goes_on.wait(30)
        return found

    tokens_read, digest = tokens.read, tokens.digest
    monkeypatch.setattr(tokens, "read", slowly)
    with ThreadPoolExecutor(1) as other:
        earlier = other.submit(known.whose, secret, now=NOON)
        assert began.wait(30)
        tokens.revoke(path, "one", now=NOON)

        def ended(text: str) -> str:
            goes_on.set()
            if threading.current_thread() is threading.main_thread():
                assert earlier.result() is not None
            return digest(text)

        monkeypatch.setattr(tokens, "digest", ended)
        assert known.whose(secret, now=NOON) is None


def test_names_are_unique_and_errors_list_the_tokens(tmp_path: Path) -> None:
    path = tokens.file_of(tmp_path)
    made(path)
    with pytest.raises(TokenError, match="token 'one' already exists"):
        made(path)
    with pytest.raises(TokenError, match="no token 'on'; tokens: one"):
        tokens.revoke(path, "on", now=NOON)
    with pytest.raises(TokenError, match="invalid token name"):
        made(path, "a\nb")
    with pytest.raises(TokenError, match="would never be valid"):
        tokens.create(path, "late", READ, expires=NOON, now=NOON, random=os.urandom)


@pytest.mark.parametrize("content", [b"", b"[{}]", b"{", b'[{"name": "x", "sha256": "", "may": []}]'])
def test_a_damaged_file_refuses_everybody(tmp_path: Path, content: bytes) -> None:
    path = tokens.file_of(tmp_path)
    secret = made(path)
    known = Tokens(path)
    assert known.whose(secret, now=NOON)
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(TokenError, match="is damaged"):
            known.whose(secret, now=NOON)


def test_a_file_that_others_may_read_is_not_used(tmp_path: Path) -> None:
    path = tokens.file_of(tmp_path)
    secret = made(path)
    path.chmod(0o640)
    with pytest.raises(TokenError, match="chmod 600"):
        Tokens(path).whose(secret, now=NOON)


MANY = """
import os, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from serving.access import tokens
from serving.access.rights import Rights
now = datetime.now(UTC)
until = now + timedelta(days=1)
for n in range(5):
    name = f"{sys.argv[2]}-{n}"
    tokens.create(Path(sys.argv[1]), name, Rights.of(may=["read"]), expires=until, now=now, random=os.urandom)
tokens.revoke(Path(sys.argv[1]), f"{sys.argv[2]}-0", now=now)
"""


def test_concurrent_processes_lose_no_change(tmp_path: Path) -> None:
    path = tokens.file_of(tmp_path)
    running = [subprocess.Popen([sys.executable, "-c", MANY, str(path), str(n)], cwd=ROOT) for n in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert {token.name for token in tokens.read(path)} == {f"{process}-{n}" for process in range(3) for n in range(1, 5)}
