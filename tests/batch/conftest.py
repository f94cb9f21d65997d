from pathlib import Path

import pytest

from tests.batch.shop import MemoryShop, Shop
from tests.stack import new_topic


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of a shop that is not marked to need a broker runs in this process, and on Spark and a broker under `--all`."""
    if "shop" in metafunc.fixturenames and not metafunc.definition.get_closest_marker("broker"):
        real = pytest.param("real", marks=[pytest.mark.slow, pytest.mark.broker])
        metafunc.parametrize("shop", ["in-one-process", real], indirect=True)


@pytest.fixture
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    """A shop that has sold nothing yet; its runs find the tests' one Spark session, or need none."""
    if getattr(request, "param", "real") == "real":
        request.getfixturevalue("spark")
        broker = request.getfixturevalue("broker")
        return Shop.open(broker, new_topic(broker), tmp_path)
    return MemoryShop.of(tmp_path, request.getfixturevalue("monkeypatch"))
