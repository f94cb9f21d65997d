"""No statement reads a file, the environment, a Python object or another's view, writes anything, or outlives its limits."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from tandem.serving.sql.database import connect
from tandem.serving.sql.limits import MIB, StatementLimits
from tandem.serving.sql.messages import Reason, StatementRefused
from tandem.serving.sql.sandbox import Sandbox
from tandem.serving.sql.shared_tables import SharedTables, share
from tests.serving import attacks

SECRET = "swordfish-7413"
VARIABLE = "TANDEM_TEST_SECRET"
own_frame = pa.table({"name": [SECRET]})


@dataclass
class Caller:
    """A caller who may read one view; there is another."""

    tables: Mapping[str, SharedTables]

    def names(self) -> list[str]:
        return ["visible"]

    def share(self, names: Sequence[str]) -> dict[str, SharedTables]:
        assert set(names) == {"visible"}
        return {name: self.tables[name] for name in names}


@dataclass
class Place:
    """A folder with a secret, and how to tell whether anything was done there."""

    folder: Path

    def aimed(self, statement: str) -> str:
        names = {
            "secret": self.folder / "secret.csv",
            "folder": self.folder,
            "target": self.folder / "target",
            "variable": VARIABLE,
        }
        for name, value in names.items():
            statement = statement.replace(f"{{{name}}}", str(value))
        return statement

    def untouched(self) -> bool:
        return [one.name for one in self.folder.iterdir()] == ["secret.csv"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("place")
    (folder / "secret.csv").write_text(f"name,n\n{SECRET},1\n")
    os.environ[VARIABLE] = SECRET
    yield Place(folder)
    del os.environ[VARIABLE]


@pytest.fixture(scope="module")
def caller() -> Caller:
    rows = {"visible": {"name": ["a", "b"], "n": [1, 2]}, "hidden": {"name": [SECRET], "n": [3]}}
    return Caller({name: share(pa.table(columns)) for name, columns in rows.items()})


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(StatementLimits(seconds=30, memory=256 * MIB)) as made:
        yield made


@pytest.fixture(scope="module")
def tight() -> Iterator[Sandbox]:
    with Sandbox(StatementLimits(seconds=1, memory=96 * MIB, rows=1000, bytes=MIB)) as made:
        yield made


def outcome(sandbox: Sandbox, caller: Caller, place: Place, statement: str) -> Reason | None:
    """Why a statement was refused, None if it was not; after which nothing has happened that must not."""
    own_frame = pa.table({"name": [SECRET]})  # noqa: F841  a statement may name what its caller's frame holds
    try:
        reason, said = None, str(sandbox.run(place.aimed(statement), caller).to_pylist())
    except StatementRefused as refused:
        reason, said = refused.reason, str(refused)
        assert said
        assert "\n" not in said
        assert len(said) < 1000
    assert SECRET not in said
    assert place.untouched()
    return reason


def honest(sandbox: Sandbox, caller: Caller) -> None:
    """The next statement is answered, and no process but those that wait is left."""
    assert sandbox.run("SELECT sum(n) AS n FROM visible", caller).to_pylist() == [{"n": 3}]
    until = time.monotonic() + 300
    while children(sandbox) > sandbox.ready:
        assert time.monotonic() < until, "a child lives on"
        time.sleep(0.005)


def children(sandbox: Sandbox) -> int:
    """How many processes there are of the sandbox, beside the one that they are forked from."""
    assert sandbox._zygote is not None
    found = 0
    for one in psutil.Process(sandbox._zygote.process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            found += one.status() != psutil.STATUS_ZOMBIE
    return found


@pytest.mark.parametrize("statement", [*attacks.FILES, *attacks.INDIRECT, *attacks.CATALOGUE, *attacks.STATEMENTS])
def test_only_a_select_over_views_is_accepted(sandbox: Sandbox, caller: Caller, place: Place, statement: str) -> None:
    assert outcome(sandbox, caller, place, statement) in ("statement", "view")
    honest(sandbox, caller)


@pytest.mark.parametrize("statement", attacks.OTHERS)
def test_forbidden_views_and_python_objects_are_not_visible(
    sandbox: Sandbox, caller: Caller, place: Place, statement: str
) -> None:
    assert outcome(sandbox, caller, place, statement) in ("statement", "view")
    honest(sandbox, caller)


@pytest.mark.parametrize("statement", attacks.BOMBS)
def test_a_statement_beyond_its_limits_ends(tight: Sandbox, caller: Caller, place: Place, statement: str) -> None:
    assert outcome(tight, caller, place, statement) in ("limit", "statement")
    honest(tight, caller)


@pytest.mark.parametrize("statement", attacks.DEEP, ids=range(len(attacks.DEEP)))
def test_a_statement_that_is_hard_to_parse_ends(tight: Sandbox, caller: Caller, place: Place, statement: str) -> None:
    outcome(tight, caller, place, statement)
    honest(tight, caller)


@pytest.mark.parametrize("statement", attacks.HARMLESS)
def test_allowed_statements_reveal_no_secret(sandbox: Sandbox, caller: Caller, place: Place, statement: str) -> None:
    outcome(sandbox, caller, place, statement)
    honest(sandbox, caller)


def test_a_forbidden_view_and_an_absent_one_look_the_same(sandbox: Sandbox, caller: Caller) -> None:
    said = {}
    for name in ("hidden", "absent"):
        with pytest.raises(StatementRefused) as refused:
            sandbox.run(f"SELECT * FROM {name}", caller)
        said[name] = str(refused.value).replace(name, "NAME")
    assert said["hidden"] == said["absent"] == "no view 'NAME'; views: visible"


def test_a_long_statement_prints_no_progress() -> None:
    assert connect(StatementLimits()).execute("SELECT current_setting('enable_progress_bar')").fetchone() == (False,)
