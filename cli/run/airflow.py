"""`tandem airflow`: Airflow's own command line, for the project's local Airflow."""

import os
from typing import Annotated

import typer

from tandem.cli.command.call import Call
from tandem.infra.airflow import local_airflow, packages
from tandem.views.errors import TandemError


def run(
    call: Call,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="-- ARGUMENTS", help="Arguments for `airflow`.")] = None,
) -> None:
    """Run `airflow ARGUMENTS` with the configuration of the Airflow that `tandem up --airflow` started.

    Example: `tandem airflow -- dags list`. Output and exit code are Airflow's own.
    """
    settings = call.settings()
    environment = packages.environment(call.environ)
    if not environment.installed() or not (local_airflow.home(settings) / "airflow.cfg").exists():
        raise TandemError("this project has no Airflow yet; `tandem up --airflow` starts one", code="airflow-not-prepared")
    os.execve(  # noqa: S606 - Airflow's command line takes the place of ours
        environment.command("airflow"), ["airflow", *(arguments or ())], local_airflow.environment(settings, call.environ)
    )
