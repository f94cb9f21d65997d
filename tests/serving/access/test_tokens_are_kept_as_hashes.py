"""A token's secret is known to its holder alone; a journal says what it allows, and no process loses another's change."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from pathlib import Path
from threading import Event, Semaphore

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tandem.infra.folders import ROOT
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.serving.access import tokens
from tandem.serving.access.rights import Rights
from tandem.serving.access.tokens import TokenError, Tokens
from tests.serving.world import NOON

READ = Rights.of(may=["read"])
LATER = NOON + timedelta(days=1)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(str(tmp_path / "tables"))


def made(tables: Tables, name: str = "one", *, rights: Rights = READ) -> str:
    return tokens.create(tables, name, rights, expires=LATER, now=NOON, random=os.urandom)[1]


def test_the_tables_hold_no_secret(tables: Tables) -> None:
    secret = made(tables)
    files = [path.read_bytes() for path in Path(tables.root).rglob("*") if path.is_file()]
    assert files
    assert not any(secret.removeprefix(tokens.PREFIX).encode() in content for content in files)
    assert tokens.read(tables)[0].digest == tokens.digest(secret)
    assert len(secret) - len(tokens.PREFIX) == 43  # 256 bits in base64


def test_a_secret_authenticates_until_it_expires(tables: Tables) -> None:
    rights = Rights.of(may=["read", "sql"], views=["per_page"], rows=["page=/a"])
    secret, other = made(tables, rights=rights), made(tables, "other")
    known = Tokens(tables)
    found = known.whose(secret, now=NOON)
    assert found is not None
    assert (found.name, found.rights) == ("one", rights)
    assert (again := known.whose(other, now=NOON)) is not None
    assert again.name == "other"
    assert known.whose(secret, now=LATER - timedelta(microseconds=1)) is not None
    assert known.whose(secret, now=LATER) is None


@pytest.mark.parametrize("change", [lambda text: text[:-1], lambda text: text + "A", str.upper, lambda _: tokens.PREFIX])
def test_any_other_secret_is_refused(tables: Tables, tmp_path: Path, change) -> None:
    secret = made(tables)
    assert Tokens(tables).whose(change(secret), now=NOON) is None
    assert Tokens(tables).whose(tokens.digest(secret), now=NOON) is None
    assert Tokens(Tables(str(tmp_path / "none"))).whose(secret, now=NOON) is None


def test_a_change_counts_at_the_next_check(tables: Tables) -> None:
    known = Tokens(tables)
    secret = made(tables)
    assert known.whose(secret, now=NOON) is not None
    tokens.revoke(tables, "one", now=NOON)
    assert known.whose(secret, now=NOON) is None
    assert known.whose(made(tables), now=NOON) is not None
    assert known.whose(secret, now=NOON) is None  # a revoked name may be used again, for another secret
    shutil.rmtree(tables.control("tokens"))
    assert known.whose(secret, now=NOON) is None


def test_an_accepted_secret_is_not_looked_for_again_for_a_moment(tables: Tables) -> None:
    seconds = 0.0
    known = Tokens(tables, lambda: seconds)
    one, other = made(tables), made(tables, "other")
    assert known.whose(one, now=NOON) is not None
    tokens.revoke(tables, "one", now=NOON)
    seconds = tokens.FRESH_S * 0.9
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known, "read", lambda: pytest.fail("it reads"))
        assert known.recent(one, now=NOON) is not None  # so the thread of all requests never waits for a bucket
        assert known.recent(one, now=LATER) is None
        assert known.recent(tokens.PREFIX, now=NOON) is None
    assert known.whose(one, now=LATER) is None  # what has expired is not accepted meanwhile
    assert known.whose(one, now=NOON) is not None
    assert known.whose(other, now=NOON) is not None  # this reads the tokens, which keeps no other one
    assert known.whose(made(tables, "new"), now=NOON) is not None  # what is not accepted yet is looked for at once
    seconds = tokens.FRESH_S
    assert known.whose(one, now=NOON) is None
    assert known.whose(other, now=NOON) is not None
    assert known.recent(one, now=NOON) is None  # what was found before this read is not kept longer because of it
    assert known.whose(one, now=NOON) is None


def test_a_read_that_was_overtaken_keeps_no_token_for_longer(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """It began before a revocation, and ends in one thread after a later read of another: from then on it is too old."""
    seconds = 0.0
    one, other = made(tables), made(tables, "other")
    known = Tokens(tables, lambda: seconds)
    read = known.read

    def overtaken() -> tuple[tokens.AccessToken, ...]:
        nonlocal seconds
        found = read()
        monkeypatch.setattr(known, "read", read)
        tokens.revoke(tables, "one", now=NOON)
        seconds = tokens.FRESH_S * 1.2
        assert known.whose(other, now=NOON) is not None
        return found

    monkeypatch.setattr(known, "read", overtaken)
    assert known.whose(one, now=NOON) is not None
    seconds = tokens.FRESH_S * 1.3
    assert known.whose(one, now=NOON) is None


def test_a_check_that_began_before_a_revocation_is_not_reused(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends in another thread, with the earlier tokens, while a check that began later waits for its turn."""
    secret = made(tables)
    known, began, goes_on = Tokens(tables), Event(), Event()

    def slowly(handle: DeltaTable, path: str) -> pa.Table:
        found = read_file(handle, path)
        if not began.is_set():
            began.set()
            assert goes_on.wait(30)
        return found

    read_file = delta_tables.read_file
    monkeypatch.setattr(delta_tables, "read_file", slowly)
    with ThreadPoolExecutor(2) as others:
        earlier = others.submit(known.whose, secret, now=NOON)
        assert began.wait(30)
        tokens.revoke(tables, "one", now=NOON)
        later = others.submit(known.whose, secret, now=NOON)
        goes_on.set()
        assert earlier.result() is not None
        assert later.result() is None


def test_checks_that_wait_share_the_next_read(tables: Tables) -> None:
    """Reads of an object store are slow; a check may use each read that began after the check."""
    secret, known = made(tables), Tokens(tables)
    began, goes_on, reads, waiting = Event(), Event(), [], Semaphore(0)

    class Slow:
        def read(self) -> tuple[tokens.AccessToken, ...]:
            reads.append(tokens.read(tables))
            began.set()
            assert goes_on.wait(30)
            return reads[-1]

    class Tickets(count):
        def __next__(self) -> int:
            ticket = super().__next__()
            waiting.release()
            return ticket

    known._seen, known._tickets = Slow(), Tickets(1)  # type: ignore[assignment]
    with ThreadPoolExecutor(6) as threads:
        checks = [threads.submit(known.whose, secret, now=NOON)]
        assert began.wait(30)
        checks += [threads.submit(known.whose, secret, now=NOON) for _ in range(5)]
        for _ in range(7):  # one ticket a check, and that of the first read
            assert waiting.acquire(timeout=30)
        goes_on.set()
        assert all(check.result() is not None for check in checks)
    assert len(reads) == 2


def test_names_are_unique_and_errors_list_the_tokens(tables: Tables) -> None:
    made(tables)
    with pytest.raises(TokenError, match="token 'one' already exists"):
        made(tables)
    with pytest.raises(TokenError, match="no token 'on'; tokens: one"):
        tokens.revoke(tables, "on", now=NOON)
    with pytest.raises(TokenError, match="invalid token name"):
        made(tables, "a\nb")
    with pytest.raises(TokenError, match="would never be valid"):
        tokens.create(tables, "late", READ, expires=NOON, now=NOON, random=os.urandom)


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"no Parquet")])
def test_a_damaged_table_refuses_everybody(tables: Tables, damage) -> None:
    secret = made(tables)
    known = Tokens(tables)
    assert known.whose(secret, now=NOON)
    made(tables, "two")
    for path in Path(tables.control("tokens")).glob("*.parquet"):
        damage(path)
    for _ in range(2):
        with pytest.raises(TokenError, match=r"the tokens cannot be read: cannot read table .*control/tokens"):
            known.whose(secret, now=NOON)


def test_a_revoked_token_still_counts_as_ever_created(tables: Tables) -> None:
    assert not tokens.ever(tables)
    made(tables)
    tokens.revoke(tables, "one", now=NOON)
    assert tokens.ever(tables)
    assert tokens.read(tables) == ()


MANY = """
import os, sys
from datetime import UTC, datetime, timedelta
from tandem.ledger.delta.addresses import Tables
from tandem.serving.access import tokens
from tandem.serving.access.rights import Rights
tables = Tables(sys.argv[1])
now = datetime.now(UTC)
until = now + timedelta(days=1)
for n in range(5):
    name = f"{sys.argv[2]}-{n}"
    tokens.create(tables, name, Rights.of(may=["read"]), expires=until, now=now, random=os.urandom)
tokens.revoke(tables, f"{sys.argv[2]}-0", now=now)
"""


@pytest.mark.parametrize(
    ("name", "valid"), [("", False), ("é", False), ("\t", False), ("a b", True), ("n" * 64, True), ("n" * 65, False)]
)
def test_a_name_is_1_to_64_printable_ascii_characters(tables: Tables, name: str, *, valid: bool) -> None:
    if valid:
        made(tables, name)
        assert [token.name for token in tokens.read(tables)] == [name]
    else:
        with pytest.raises(TokenError, match="expected 1 to 64 printable ASCII characters"):
            made(tables, name)


def test_concurrent_processes_lose_no_change(tables: Tables) -> None:
    running = [subprocess.Popen([sys.executable, "-c", MANY, tables.root, str(n)], cwd=ROOT) for n in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert {token.name for token in tokens.read(tables)} == {f"{process}-{n}" for process in range(3) for n in range(1, 5)}
