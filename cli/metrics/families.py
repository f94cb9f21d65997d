"""Every metric: its name, its help, and where its value is read. docs/metrics.md is generated from this.

Names follow https://prometheus.io/docs/practices/naming/: a base unit at the end, `_total` on counters.
"""

from typing import Final

from tandem.cli.metrics import samples
from tandem.cli.metrics.family import Family
from tandem.cli.metrics.output_families import OUTPUTS

_SOURCE: Final = ("source",)
_AUDITED: Final = ("view", "measure")
_RUN: Final = ("source", "kind")
_TABLE: Final = ("kind", "name")

SCRAPE_SUCCESS: Final = Family(
    "tandem_scrape_success", "gauge", (), "1 if this scrape could read all tables and the project, 0 if not.", lambda _: [((), 1)]
)
FAMILIES: Final = (
    SCRAPE_SUCCESS,
    Family("tandem_process_up", "gauge", ("process",), "1 if a process of `tandem up` runs, 0 if not.", samples.processes),
    Family(
        "tandem_part_red",
        "gauge",
        ("part",),
        "1 if a part is dead, stuck or given up, 0 if not.",
        samples.parts(lambda part: part["red"]),
    ),
    Family("tandem_part_state", "gauge", ("part", "state"), "1 for the current state of a part.", samples.part_states),
    Family(
        "tandem_part_age_seconds",
        "gauge",
        ("part",),
        "Seconds since a part last counted or polled events; missing for a part that does not report it.",
        samples.parts(lambda part: part["age_s"]),
    ),
    Family(
        "tandem_publication_number",
        "gauge",
        (),
        "The number of the newest publication; missing where nothing is published.",
        samples.published(lambda one: one.number),
    ),
    Family(
        "tandem_publication_timestamp_seconds",
        "gauge",
        (),
        "Time of the newest publication, in seconds since 1970.",
        samples.published(lambda one: one.at.timestamp()),
    ),
    Family("tandem_release_number", "gauge", (), "The number of the live release.", samples.published(lambda one: one.release)),
    Family(
        "tandem_log_end_offsets",
        "gauge",
        ("source", "topic_id", "partition"),
        "The offset after the last record that can be read; missing while the broker does not answer.",
        samples.log_ends,
    ),
    Family(
        "tandem_open_transaction_offsets",
        "gauge",
        ("source", "topic_id", "partition"),
        "Offsets that wait behind an open transaction: neither the log's end nor the lag counts them; missing without one.",
        samples.open_transactions(lambda each, _: each["offsets"]),
    ),
    Family(
        "tandem_open_transaction_seconds",
        "gauge",
        ("source", "topic_id", "partition"),
        "Seconds since the partition's oldest open transaction began; missing without one, or if the broker does not report it.",
        samples.open_transactions(lambda each, now: samples.age_of(each["since"], now)),
    ),
    Family(
        "tandem_position_offsets",
        "gauge",
        ("view", "layer", "topic_id", "partition"),
        "The offset below which answers of a layer count the log: `batch` is the cut, `merged` the position of merged answers.",
        samples.positions,
    ),
    Family(
        "tandem_lag_offsets",
        "gauge",
        ("view",),
        "Offsets of the log that merged answers do not count yet; missing while the broker does not answer.",
        samples.of_views(lambda view: view["lag"]),
    ),
    Family(
        "tandem_hot_tail_ahead_offsets",
        "gauge",
        ("source",),
        "Offsets that the hot tail of the server on this machine counts beyond the commits; missing without one.",
        samples.of_hot_tails(lambda hot: hot["ahead"]),
    ),
    Family(
        "tandem_hot_tail_aside",
        "gauge",
        ("source",),
        "1 if the hot tail does not follow the log, so that answers are those of commits; missing without one.",
        samples.of_hot_tails(lambda hot: hot["aside"] is not None),
    ),
    Family(
        "tandem_hot_tail_views_aside",
        "gauge",
        ("source",),
        "Views that stand aside from the hot tail because they are too heavy; missing without one.",
        samples.of_hot_tails(lambda hot: len(hot["views_aside"])),
    ),
    Family(
        "tandem_hot_tail_mismatched_rows",
        "gauge",
        ("source",),
        "Rows of the live release's hot tail that differed from the commits that followed, since that tail began; it must be 0.",
        samples.of_hot_tails(lambda hot: hot["mismatched"]),
    ),
    *OUTPUTS,
    Family(
        "tandem_newest_event_age_seconds",
        "gauge",
        _SOURCE,
        "Seconds since the newest event that merged answers count was appended to the log.",
        samples.of_sources(lambda source: source["age_s"]),
    ),
    Family(
        "tandem_cut_age_seconds",
        "gauge",
        _SOURCE,
        "Seconds since the newest event below the cut was appended to the log.",
        samples.cut_ages,
    ),
    Family(
        "tandem_watermark_timestamp_seconds",
        "gauge",
        _SOURCE,
        "The watermark of merged answers, in seconds since 1970.",
        samples.of_sources(lambda source: samples.seconds(source["watermark"])),
    ),
    Family(
        "tandem_behind_bridge",
        "gauge",
        _SOURCE,
        "1 while merged answers cannot advance until a recompute publishes the range that the speed layer skipped.",
        samples.of_sources(lambda source: source["behind_bridge"]),
    ),
    Family(
        "tandem_records_total",
        "counter",
        ("source", "outcome", "reason"),
        "Records by outcome, by the layer that is ahead: `decoded`, `quarantined` by reason, of an `other_source`, or "
        "`skipped`: a tombstone, or before the source's start; and events of lists that are `quarantined` alone.",
        samples.records,
    ),
    Family(
        "tandem_source_rejected",
        "gauge",
        _SOURCE,
        "1 while more than half of the source's newest records are rejected, 0 while they decode.",
        samples.of_sources(lambda source: source["rejected"] is not None),
    ),
    Family(
        "tandem_archived_records_total",
        "counter",
        _SOURCE,
        "Records in the archive.",
        samples.of_sources(lambda source: source["archived"]),
    ),
    Family(
        "tandem_late_events_total",
        "counter",
        _SOURCE,
        "Events that merged answers count and that arrived later than `lateness` behind the newest of their partition.",
        samples.of_sources(lambda source: source["late"]),
    ),
    Family(
        "tandem_ahead_events_total",
        "counter",
        _SOURCE,
        "Events whose time is more than the source's `clock_skew` after their record's timestamp; they move no watermark.",
        samples.of_sources(lambda source: source["ahead"]),
    ),
    Family(
        "tandem_off_calendar_events_total",
        "counter",
        _SOURCE,
        "Events whose record has a timestamp before 1582-10-15 or after the year 9999, such as nanoseconds for milliseconds.",
        samples.of_sources(lambda source: source["off_calendar"]),
    ),
    Family(
        "tandem_rounded_values_total",
        "counter",
        _SOURCE,
        "Values of events, duplicates included, that were rounded to the `Scale` of their field.",
        samples.of_sources(lambda source: source["rounded"]),
    ),
    Family(
        "tandem_duplicate_events_total",
        "counter",
        _SOURCE,
        "Duplicates that merged answers do not count.",
        samples.of_sources(lambda source: source["duplicates"]),
    ),
    Family(
        "tandem_conflicting_events_total",
        "counter",
        _SOURCE,
        "Duplicates whose content differed from the counted event.",
        samples.of_sources(lambda source: source["conflicts"]),
    ),
    Family(
        "tandem_after_final_events_total",
        "counter",
        ("view",),
        "Events that arrived in windows that answers had labelled final.",
        samples.of_views(lambda view: view["after_final"]),
    ),
    Family(
        "tandem_triggers_total",
        "counter",
        ("release", "source"),
        "Micro-batches that the speed layer has folded since it started; missing if it does not run.",
        samples.triggers,
    ),
    Family(
        "tandem_trigger_phase_seconds_total",
        "counter",
        ("release", "source", "phase"),
        "Seconds that each phase of the speed layer's micro-batches took, by Spark's names: `addBatch` folds and commits.",
        samples.phases,
    ),
    Family(
        "tandem_until_loss_seconds",
        "gauge",
        _SOURCE,
        "Seconds until the topic's retention may delete records that are not archived; missing if there are none, or no limit.",
        samples.until_loss("seconds"),
    ),
    Family(
        "tandem_until_loss_offsets",
        "gauge",
        _SOURCE,
        "Offsets until the topic's retention may delete records that are not archived; missing if there are none, or no limit.",
        samples.until_loss("offsets"),
    ),
    Family(
        "tandem_lost_offsets",
        "gauge",
        _SOURCE,
        "Offsets that the topic deleted before they were archived.",
        samples.until_loss("lost"),
    ),
    Family(
        "tandem_audit_timestamp_seconds",
        "gauge",
        _AUDITED,
        "Time of the newest audit of the measure, in seconds since 1970.",
        samples.audited(lambda audit: audit.at.timestamp()),
    ),
    Family(
        "tandem_audit_rows",
        "gauge",
        _AUDITED,
        "Answers that the newest audit compared.",
        samples.audited(lambda audit: audit.figures.rows),
    ),
    Family(
        "tandem_audit_differing_rows",
        "gauge",
        _AUDITED,
        "Answers that differed by more than the measure's tolerance in the newest audit.",
        samples.audited(lambda audit: audit.figures.differ),
    ),
    Family(
        "tandem_audit_largest_error",
        "gauge",
        _AUDITED,
        "The largest absolute error in the newest audit, in the measure's own unit.",
        samples.audited(lambda audit: audit.figures.largest),
    ),
    Family(
        "tandem_audit_symmetric_error_ratio",
        "gauge",
        _AUDITED,
        "The symmetric mean absolute percentage error in the newest audit, from 0 to 2.",
        samples.audited(lambda audit: audit.figures.smape),
    ),
    Family(
        "tandem_expectation_unmet_rows",
        "gauge",
        ("view", "condition", "if_unmet"),
        "Rows that do not meet a condition of their view in the newest version that was checked, published or not.",
        samples.expectations,
    ),
    Family(
        "tandem_run_timestamp_seconds",
        "gauge",
        _RUN,
        "End of the newest run of its kind, in seconds since 1970; `raw` runs read the archive, the others the events table.",
        samples.ran(lambda run: run.at.timestamp()),
    ),
    Family("tandem_run_rows", "gauge", _RUN, "Rows that the newest run of its kind read.", samples.ran(lambda run: run.rows)),
    Family(
        "tandem_run_bytes", "gauge", _RUN, "Bytes of the table's files that hold these rows.", samples.ran(lambda run: run.bytes)
    ),
    Family("tandem_run_seconds", "gauge", _RUN, "Duration of the newest run of its kind.", samples.ran(lambda run: run.seconds)),
    Family(
        "tandem_run_estimated_seconds",
        "gauge",
        _RUN,
        "Duration of the newest run of its kind as earlier runs predict it; missing if there were none.",
        samples.estimated,
    ),
    Family(
        "tandem_table_files",
        "gauge",
        _TABLE,
        "Active files of a table of the live release; `kind`: `archive`, `events`, `quarantine`, `realtime`, `view`.",
        samples.stored(lambda one: one.files),
    ),
    Family("tandem_table_bytes", "gauge", _TABLE, "Bytes of a table's active files.", samples.stored(lambda one: one.bytes)),
)
"""In the order in which they are printed."""
