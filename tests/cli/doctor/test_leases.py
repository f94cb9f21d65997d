"""`doctor` names the run that may write the tables of an object store, and until when."""

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tandem.cli.doctor.leases import UNREADABLE
from tandem.infra.folders import ROOT
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.one_writer import write_leases
from tandem.ledger.delta.one_writer.write_leases import Lease, Owner
from tests.cli.doctor.looked import fine, looked
from tests.infra.storage.s3 import a_bucket


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "examples" / "web", tmp_path / "web"))


@pytest.fixture
def tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tables]:
    with a_bucket() as (url, options):
        secret = {name: value for name, value in options.items() if "key" in name}
        for name, value in secret.items():
            monkeypatch.setenv(name.upper(), value)
        told = {name: value for name, value in options.items() if name not in secret}
        lines = ["[storage]", f'root = "{url}"', "[storage.options]", *(f'{name} = "{value}"' for name, value in told.items())]
        (folder / "tandem.toml").write_text("\n".join([*lines, ""]))
        yield Tables(url, told)


def taken(tables: Tables) -> Lease:
    owner = Owner("tandem recompute", "there", 7, datetime(2026, 11, 1, 12, tzinfo=UTC))
    return write_leases.take(tables, "views", owner, patience=0, say=lambda _: None)


def found(folder: Path, seconds: float = 0) -> list[str]:
    """What the check finds `seconds` seconds from now."""
    now = datetime.now(UTC) + timedelta(seconds=seconds)
    findings = looked(folder, "leases", environ=os.environ, now=now)
    assert {finding.outcome for finding in findings} == {"ok"}
    return [finding.what for finding in findings]


def test_a_folder_has_no_leases(folder: Path) -> None:
    assert fine(folder, "leases") == "the tables are in a folder: lock files decide who writes"


def test_a_lease_is_named_with_its_owner_and_until_when(folder: Path, tables: Tables) -> None:
    assert found(folder) == ["no run has taken a lease yet"]
    lease = taken(tables)
    owner = "tandem recompute (pid 7 on there, since 2026-11-01T12:00:00+00:00), token 1"
    (held,) = found(folder, 5)
    assert held.startswith(f"'views' tables: held by {owner}, renewed ")
    until = datetime.fromisoformat(held.split(", until ")[1].removesuffix(" unless renewed"))
    assert timedelta(seconds=20) < until - datetime.now(UTC) <= timedelta(seconds=30)
    (late,) = found(folder, 100)
    assert late.startswith("'views' tables: not renewed for ")
    assert late.endswith(f" s by {owner}; the next run takes it")
    lease.release()
    (free,) = found(folder, 100)
    assert free.startswith("'views' tables: free for ")
    assert free.endswith(f" s, after {owner}")


def test_a_renewal_moves_the_end(tables: Tables) -> None:
    lease = taken(tables)
    before = write_leases.written(tables, "views")
    lease.renew()
    after = write_leases.written(tables, "views")
    assert before is not None
    assert after is not None
    assert (before[0].token, after[0].token) == (1, 1)
    assert after[1] > before[1]


def test_a_lease_that_cannot_be_read_is_a_problem(folder: Path, tables: Tables) -> None:
    taken(tables)
    storage = tables.storage()
    storage.delete([head.name for head in storage.list_after("control/leases") if head.name.endswith(".parquet")])
    (finding,) = (each for each in looked(folder, "leases", environ=os.environ) if each.outcome == "fail")
    assert finding.fix == UNREADABLE.fix
