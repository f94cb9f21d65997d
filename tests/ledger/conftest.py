from pathlib import Path

import pytest

from tandem.ledger.delta.addresses import Tables


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(str(tmp_path / "state"))
