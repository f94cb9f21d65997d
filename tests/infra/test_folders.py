"""Code, cache and state are three folders, and only the last two are written to."""

from pathlib import Path

import pytest

from tandem.cli.command.exclusive_state import own_state
from tandem.infra import folders, settings
from tandem.infra.airflow.packages import environment
from tandem.infra.java import java_home

HOME = {"HOME": "/home/ann"}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The platform as if it were installed in this folder."""
    monkeypatch.setattr(folders, "CHECKOUT", False)
    monkeypatch.setattr(folders, "ROOT", tmp_path / "tandem")
    return tmp_path


def test_a_checkout_writes_only_to_its_own_folder() -> None:
    assert folders.CHECKOUT
    assert folders.cache(HOME) == folders.state(HOME) == folders.ROOT / ".tandem"
    assert environment(HOME).folder == folders.ROOT / ".venv-airflow"
    assert folders.command(HOME) == folders.ROOT / "tandem"
    assert (folders.EXAMPLES / "web" / "definitions.py").is_file()
    assert (folders.DAGS / "recompute.py").is_file()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("environ", "cache", "state"),
    [
        (HOME, "/home/ann/.cache/tandem", "/home/ann/.local/state/tandem"),
        ({**HOME, "XDG_CACHE_HOME": "/c", "XDG_STATE_HOME": "/s"}, "/c/tandem", "/s/tandem"),
        ({**HOME, "XDG_CACHE_HOME": "c", "XDG_STATE_HOME": ""}, "/home/ann/.cache/tandem", "/home/ann/.local/state/tandem"),
        ({**HOME, "XDG_CACHE_HOME": "/c", "TANDEM_CACHE": "/mine", "TANDEM_STATE": "/own"}, "/mine", "/own"),
    ],
)
def test_an_installed_copy_uses_the_home_or_the_variables(environ: dict[str, str], cache: str, state: str) -> None:
    assert (str(folders.cache(environ)), str(folders.state(environ))) == (cache, state)
    assert environment(environ).folder == Path(cache) / "airflow"
    assert java_home.packaged_home(environ) == Path(cache) / "jre"
    assert own_state(environ, "demo", "web") == Path(state) / "demo" / "web"


def test_an_example_of_an_installed_copy_has_its_state_elsewhere(installed: Path) -> None:
    example = installed / "tandem" / "examples" / "web"
    assert settings.load(example, HOME).state == "/home/ann/.local/state/tandem/examples/web"
    assert settings.load(example, {**HOME, "TANDEM_STATE": "/own"}).state == "/own"
    mine = installed.parent / "my_shop"
    assert settings.load(mine, HOME).state == str(mine / ".tandem")


def test_children_import_this_copy_and_nothing_of_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    own = str(folders.ROOT / "src")
    assert folders.child_environment({"A": "b"}) == {"A": "b", "PYTHONPATH": own, "PYTHONSAFEPATH": "1"}
    twice = folders.child_environment(folders.child_environment({"PYTHONPATH": "/x::/y"}))
    assert twice["PYTHONPATH"] == f"{own}:/x:/y"
    monkeypatch.setattr(folders, "CHECKOUT", False)
    assert folders.child_environment({}) == {"PYTHONSAFEPATH": "1"}
    assert folders.child_environment({"PYTHONPATH": "/x"})["PYTHONPATH"] == "/x"
