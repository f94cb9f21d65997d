"""`verify`: replay the archive through both layers, and compare some keys with the plain oracle. Every night."""

from airflow.sdk import DAG

from tandem_dags.configuration import configuration
from tandem_dags.defaults import at, common
from tandem_dags.task import Tandem

CONFIGURED = configuration()

with DAG(
    dag_id="verify",
    doc_md=__doc__,
    schedule=at(CONFIGURED.verify),
    **common(CONFIGURED),
):
    # A whole replay is expensive, and a difference stays at a retry. The one retry is for a lost worker.
    Tandem(task_id="verify", arguments=["verify", "--all"], keep=["agree", "publication", "release"], retries=1)
