"""Reading answers imports no pandas: it would take longer than all the rest, and has no part in them.

Whoever imports it afterwards has it in both directions.
"""

import subprocess
import sys

READ = """
import sys
from datetime import datetime

from tandem.views.source.event import Event
from tandem.views.kernel.kernel import Partial, merge, present
from tandem.views.measures import count, approx_count_distinct, maximum, mean, approx_quantiles, total
from tandem.views.source.source import Source
from tandem.views.view import View, state_schema
from tandem.views.windows import tumbling
from tandem.views.arrow.arrays import from_ipc, to_ipc

class Reading(Event):
    at: datetime
    site: str
    wh: int
    volts: float

source = Source(topic="readings", event=Reading, event_time="at")
measures = {"n": count(), "wh": total("wh"), "mean": mean("wh"), "volts": mean("volts"), "sites": approx_count_distinct("site")}
view = View(
    source, keys={"site": "site"}, window=tumbling(hours=1),
    measures={**measures, "q": approx_quantiles("volts", (0.5,)), "last": maximum('"at"')},
)
nothing = merge(view, [])
states = from_ipc(to_ipc(nothing.states))
assert "pandas" not in sys.modules, "imported by definitions, imports or the wire"

from tandem.views.kernel import partial
from tandem.views.sql import engine
# One row of states without pa.array: DuckDB makes the event.
row = "SELECT TIMESTAMPTZ '2026-11-01 12:00+00' AS at, 'a' AS site, 5::BIGINT AS wh, 1.5::DOUBLE AS volts"
event = engine.query(row, {})
folded = partial.partial(view, event, nothing.ranges)
merged = merge(view, [folded, Partial(from_ipc(to_ipc(folded.states)))])
assert present(view, merged)["n"].to_pylist() == [2]
from decimal import Decimal
import pyarrow as pa
from tandem.views.arrow.python_values import array, scalar
assert array([1, None], pa.int64()).to_pylist() == [1, None]
assert scalar(Decimal("1.5"), pa.decimal128(38, 2)).as_py() == Decimal("1.5")
pa.array([{"a": [1]}])
assert "pandas" not in sys.modules, "imported by partial, merge, present or a conversion"
import pandas
assert pa.table({"a": [1]}).to_pandas().equals(pandas.DataFrame({"a": [1]}))
assert pa.Table.from_pandas(pandas.DataFrame({"a": [1.0, None]}))["a"].null_count == 1
"""


def test_folding_merging_presenting_and_converting_import_no_pandas() -> None:
    subprocess.run([sys.executable, "-c", READ], check=True)
