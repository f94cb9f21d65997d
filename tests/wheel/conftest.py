"""One wheel for all tests of it, and one copy that is installed beside this environment's packages."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.infra.java import jars
from tests.stack import environ
from tests.wheel import copy


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="tandem-wheel-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def installed(wheel: Path, open_folder: Path) -> copy.Copy:
    """The wheel beside the packages of this environment, with the jars of this checkout in its cache."""
    cache = open_folder / "cache" / "jars"
    for group in ("spark", "broker", "jdbc"):
        (cache / group).mkdir(parents=True)
    for path in jars.pinned():
        (cache / path).symlink_to(jars.folder(environ()) / path)
    return copy.installed(wheel, open_folder / "beside", cache=cache.parent)
