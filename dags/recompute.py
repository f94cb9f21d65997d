"""`recompute`: archive new records, add them to the batch views, publish the views, and maintain the tables. Every hour.

* Each publication is an event of every view's asset.
* The hours that have ended since the last run are partitions of `tandem://<project>/hours`: once a run has published, every view
  counts all records that the log had at the end of these hours.
* `recompute_full` folds everything again once a week, at the published cut. `tandem` refuses to publish a result that differs
  from the served answers.
* `recompute_days` rebuilds the windows of whole days, one for each partition of a backfill. Its schedule only defines the
  partitions.
* `published_days` reports each day whose hours are all published.
"""

from datetime import timedelta

from airflow.sdk import (
    DAG,
    CronPartitionTimetable,
    DayWindow,
    PartitionedAssetTimetable,
    RollupMapper,
    StartOfDayMapper,
)

from tandem_dags import assets
from tandem_dags.configuration import configuration
from tandem_dags.defaults import at, common
from tandem_dags.progress import HOURS
from tandem_dags.task import Tandem

CONFIGURED = configuration()
SHARED = common(CONFIGURED)
KEPT = ("published", "paused", "publication", "release")

with DAG(
    dag_id="recompute",
    doc_md=__doc__,
    schedule=at(CONFIGURED.recompute),
    **SHARED,
):
    (
        Tandem(task_id="archive", arguments=["archive"])
        >> Tandem(task_id="recompute", arguments=["recompute"], keep=KEPT, announce="views", hours=True)
        >> Tandem(task_id="maintain", arguments=["maintain"], keep=["freed"])
    )

with DAG(
    dag_id="recompute_full",
    doc_md="Fold everything again at the published cut. A result that differs from the served one is not published.",
    schedule=at(CONFIGURED.full),
    **SHARED,
):
    Tandem(task_id="recompute", arguments=["recompute", "--mode", "full", "--keep-cut"], keep=KEPT, announce="views")

with DAG(
    dag_id="recompute_days",
    doc_md="Rebuild the windows of whole days: `airflow backfill create --dag-id recompute_days --from-date ... --to-date ...`",
    schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC", key_format=assets.DAYS),
    **SHARED,
):
    Tandem(task_id="recompute", arguments=["recompute"], windows=timedelta(days=1), keep=KEPT, announce="days")

with DAG(
    dag_id="published_days",
    doc_md="Report each day whose hours are all published.",
    schedule=PartitionedAssetTimetable(
        assets=assets.hours(CONFIGURED.called),
        default_partition_mapper=RollupMapper(
            upstream_mapper=StartOfDayMapper(input_format=HOURS, output_format=assets.DAYS), window=DayWindow()
        ),
    ),
    **SHARED,
):
    Tandem(task_id="published", arguments=["history", "--limit", "1"], announce="days")
