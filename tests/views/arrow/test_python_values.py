"""Decoding does not wait for pandas, and whoever wants pandas later still has it."""

import subprocess
import sys
from pathlib import Path

from tests.stack import PYTHONPATH

ROOT = Path(__file__).parents[3]


def test_the_first_conversion_leaves_pandas_alone() -> None:
    """A fresh process converts without importing pandas; imported afterwards, it works with pyarrow in both directions."""
    script = """
import sys
from datetime import UTC, datetime
from decimal import Decimal
import pyarrow as pa
from tandem.views.arrow.python_values import array, scalar
assert array([1, None], pa.int64()).to_pylist() == [1, None]
assert scalar(Decimal("1.5"), pa.decimal128(38, 2)).as_py() == Decimal("1.5")
array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
pa.array([{"a": [1]}])
assert "pandas" not in sys.modules, "loaded"
import pandas
assert pa.table({"a": [1]}).to_pandas().equals(pandas.DataFrame({"a": [1]}))
assert pa.Table.from_pandas(pandas.DataFrame({"a": [1.0, None]}))["a"].null_count == 1
"""
    run = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": PYTHONPATH}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
