"""Airflow's packages, in their own environment.

Airflow needs older versions of packages that the platform needs in newer ones, and most users of the platform do not need
Airflow.
"""

from collections.abc import Mapping
from typing import Final

from tandem.infra import folders
from tandem.infra.folders import ROOT
from tandem.infra.locks.environment import Environment

LOCK: Final = ROOT / "infra" / "locks" / "airflow.lock"


def environment(environ: Mapping[str, str]) -> Environment:
    """The environment: `.venv-airflow` of a checkout, `airflow` in the cache folder of an installed copy."""
    folder = ROOT / ".venv-airflow" if folders.CHECKOUT else folders.cache(environ) / "airflow"
    return Environment("Airflow", folder, LOCK)
