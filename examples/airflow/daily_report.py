"""Your own DAGs, next to Tandem's: put a file like this into `dags/` of your project's folder.

* `report` runs for every publication of a view, whatever created it.
* `daily_report` runs once for each day that is complete or was rebuilt.
* `morning_report` runs on its own schedule and waits for the view.
"""

import os

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, CronTriggerTimetable, PartitionedAssetTimetable

from tandem_dags.assets import view, view_days
from tandem_dags.configuration import configuration
from tandem_dags.published import Published

PROJECT = configuration().called
VIEW = os.environ.get("REPORTED_VIEW", "page_traffic")

with DAG(dag_id="report", schedule=[view(PROJECT, VIEW)], catchup=False, is_paused_upon_creation=False):
    BashOperator(
        task_id="report",
        bash_command="echo publication {{ (triggering_asset_events.values() | first | last).extra.publication }}",
    )

with DAG(
    dag_id="daily_report",
    schedule=PartitionedAssetTimetable(assets=view_days(PROJECT, VIEW)),
    catchup=False,
    is_paused_upon_creation=False,
):
    BashOperator(task_id="report", bash_command="echo the day {{ partition_key }}")

with DAG(
    dag_id="morning_report",
    schedule=CronTriggerTimetable("0 6 * * *", timezone="UTC"),
    catchup=False,
    is_paused_upon_creation=False,
):
    # The published watermark is past this morning, so yesterday is complete.
    (
        Published(task_id="wait", view=VIEW, time="{{ dag_run.run_after.strftime('%Y-%m-%dT00:00:00Z') }}", timeout=3 * 3600)
        >> BashOperator(task_id="report", bash_command="echo yesterday is whole")
    )
