"""`maintain`: compact tables and delete files that no retained publication uses. Every day."""

from airflow.sdk import DAG

from tandem_dags.configuration import configuration
from tandem_dags.defaults import at, common
from tandem_dags.task import Tandem

CONFIGURED = configuration()

with DAG(
    dag_id="maintain",
    doc_md=__doc__,
    schedule=at(CONFIGURED.maintain),
    **common(CONFIGURED),
):
    Tandem(task_id="maintain", arguments=["maintain"], keep=["retained", "freed"])
