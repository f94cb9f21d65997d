"""The metrics of what goes out: sinks and alerts."""

from typing import Final

from tandem.cli.metrics import samples
from tandem.cli.metrics.family import Family
from tandem.serving.sinks.alerts.book import active_edges

_SINK: Final = ("sink",)
_ALERT: Final = ("alert",)
_RECEIVER: Final = ("alert", "receiver")

OUTPUTS: Final = (
    Family(
        "tandem_sink_running",
        "gauge",
        _SINK,
        "1 if a process runs the sink and has not failed since its last step, 0 if not; missing if none ever ran it here.",
        samples.of_sinks(lambda sink: sink["state"] == "running"),
    ),
    Family(
        "tandem_sink_lag_offsets",
        "gauge",
        _SINK,
        "Offsets that answers count and the token of the target does not; missing without a token.",
        samples.of_sinks(lambda sink: sink["lag"]),
    ),
    Family(
        "tandem_sink_lag_seconds",
        "gauge",
        _SINK,
        "Seconds since the target was last seen to be the view; 0 if it is now, missing if it never was.",
        samples.of_sinks(lambda sink: sink["lag_s"]),
    ),
    Family(
        "tandem_sink_steps_total",
        "counter",
        _SINK,
        "Steps of the target since the process of the sink began.",
        samples.of_sinks(lambda sink: sink["steps"]),
    ),
    Family(
        "tandem_sink_rows_total",
        "counter",
        _SINK,
        "Rows that these steps wrote.",
        samples.of_sinks(lambda sink: sink["rows"]),
    ),
    Family(
        "tandem_sink_gone_rows_total",
        "counter",
        _SINK,
        "Rows that these steps deleted.",
        samples.of_sinks(lambda sink: sink["gone"]),
    ),
    Family(
        "tandem_sink_comparisons_total",
        "counter",
        _SINK,
        "Steps that compared all rows, because the token was lost, had expired or was of other rows.",
        samples.of_sinks(lambda sink: sink["comparisons"]),
    ),
    Family(
        "tandem_sink_errors_total",
        "counter",
        _SINK,
        "Attempts that ended with an error since the process of the sink began.",
        samples.of_sinks(lambda sink: sink["errors"]),
    ),
    Family(
        "tandem_alert_raised",
        "gauge",
        _ALERT,
        "Rows for which the alert is raised; missing if it has never run.",
        samples.of_alerts(lambda document: len(active_edges(document))),
    ),
    Family(
        "tandem_alert_unsent",
        "gauge",
        _RECEIVER,
        "Edges that are stored, and that the receiver has not acknowledged.",
        samples.of_receivers(lambda document, receiver: len(document.unsent(receiver))),
    ),
    Family(
        "tandem_alert_failing",
        "gauge",
        _RECEIVER,
        "1 if the last attempt to send to the receiver failed, 0 if not.",
        samples.of_receivers(lambda document, receiver: receiver in document.faults),
    ),
)
