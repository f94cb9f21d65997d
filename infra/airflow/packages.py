"""Airflow's packages, in an environment of their own.

Airflow holds back packages that the platform needs newer, and most who use the platform do without it.
"""

from collections.abc import Mapping
from typing import Final

from infra import folders
from infra.folders import ROOT
from infra.locks.environment import Environment

LOCK: Final = ROOT / "infra" / "locks" / "airflow.lock"


def environment(environ: Mapping[str, str]) -> Environment:
    """The environment: `.venv-airflow` of a checkout, `airflow` in the cache folder of an installed copy."""
    folder = ROOT / ".venv-airflow" if folders.CHECKOUT else folders.cache(environ) / "airflow"
    return Environment("Airflow", folder, LOCK)
