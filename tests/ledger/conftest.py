from pathlib import Path

import pytest

from ledger.tables import Tables


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(str(tmp_path / "state"))
