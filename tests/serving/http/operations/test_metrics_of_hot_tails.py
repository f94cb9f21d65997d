"""The server's metrics of hot tails: gauges of their states now, counters of what has been compared since the start."""

from tandem.ledger.hot.messages import HotStatus
from tandem.serving.http.metrics import Metrics


def test_comparisons_are_counters_and_states_are_gauges() -> None:
    metrics, aside = Metrics(), {"daily": "it needs 90% of the time"}
    metrics.hot([HotStatus(nbytes=7), HotStatus("no broker", aside)], ahead=9, compared=3, mismatched=0)
    metrics.hot([HotStatus(nbytes=5, views_aside=aside)], ahead=4, compared=5, mismatched=2)
    told = metrics.text().decode().splitlines()
    expected = {
        "tandem_hot_aside 0.0",
        "tandem_hot_views_aside 1.0",
        "tandem_hot_ahead_offsets 4.0",
        "tandem_hot_bytes 5.0",
        "tandem_hot_compared_views_total 5.0",
        "tandem_hot_mismatched_rows_total 2.0",
        "# TYPE tandem_hot_mismatched_rows_total counter",
    }
    assert expected <= {*told}
