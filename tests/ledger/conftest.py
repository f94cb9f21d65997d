from pathlib import Path

import pytest

from ledger.delta.addresses import Tables


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(str(tmp_path / "state"))
