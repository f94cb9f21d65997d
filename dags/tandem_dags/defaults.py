"""Arguments that all of these DAGs share."""

from datetime import timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable

from tandem_dags.configuration import Configuration


def common(configured: Configuration) -> dict[str, Any]:
    """Arguments of each DAG: one run at a time, and retries of tasks with growing pauses.

    DAGs do not catch up on missed runs, because one recompute takes all new records. They have no start date, so the first run
    waits for its time.
    """
    return {
        "catchup": False,
        "max_active_runs": 1,
        "is_paused_upon_creation": False,
        "tags": ["tandem", configured.called],
        "default_args": {
            "retries": configured.retries,
            "retry_delay": timedelta(seconds=configured.retry_s),
            "retry_exponential_backoff": True,
            "max_active_tis_per_dag": 1,
        },
    }


def at(cron: str) -> CronTriggerTimetable | None:
    """A schedule in UTC, None if there is none. A new DAG waits for its next time, even if the last time has just passed."""
    return CronTriggerTimetable(cron, timezone="UTC", run_immediately=timedelta(0)) if cron else None
