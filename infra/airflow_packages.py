"""Airflow's packages, in an environment of their own.

Airflow holds back packages that the platform needs newer, and most who use the platform do without it.
"""

from collections.abc import Mapping
from typing import Final

from infra import folders
from infra.environments import Environment
from infra.folders import ROOT

LOCK: Final = ROOT / "infra" / "airflow.lock"


def environment(environ: Mapping[str, str]) -> Environment:
    """The environment: `.venv-airflow` of a checkout, `airflow` in the cache folder of an installed copy."""
    folder = ROOT / ".venv-airflow" if folders.CHECKOUT else folders.cache(environ) / "airflow"
    return Environment("Airflow", folder, LOCK)
