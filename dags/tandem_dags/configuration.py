"""The configuration of the DAGs: a small JSON file, named by $TANDEM_AIRFLOW. Parsing a DAG reads nothing else.

`tandem up --airflow` writes the file from `[airflow]` of tandem.toml. In an Airflow of your own it may be as short as
`{"tandem": "/opt/tandem/tandem", "project": "/srv/my_shop"}`.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

VARIABLE = "TANDEM_AIRFLOW"
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Configuration:
    """The command, the project and the schedules: cron expressions in UTC, empty for none.

    * `name`: the project's name in the names of assets; by default the name of its folder.
    * `pod`: the template of the pod in which a task runs its command; empty to run it in the task's own process. In a pod
      `project` is a path of the image.
    * `api`, `passwords`: the address of Airflow's REST API, and the file of its users' passwords, for the notes of runs. Without
      them runs have no notes.
    """

    # The launcher of a checkout; of an installed copy the script on the PATH.
    tandem: str = str(_ROOT / "tandem") if (_ROOT / "tandem").is_file() else "tandem"
    project: str = str(_ROOT / "examples" / "web")
    name: str = ""
    recompute: str = "0 * * * *"
    full: str = "30 3 * * 0"
    verify: str = "30 2 * * *"
    maintain: str = "0 2 * * *"
    watch_log: str = "*/10 * * * *"
    retries: int = 3
    retry_s: int = 30
    pod: str = ""
    api: str = ""
    passwords: str = ""

    @property
    def called(self) -> str:
        """The project's name."""
        return self.name or Path(self.project).name


def load(environ: Mapping[str, str]) -> Configuration:
    """The configuration in the file that the variable names; all defaults without one. Raises ValueError for an unknown key."""
    file = environ.get(VARIABLE)
    if not file:
        return Configuration()
    document = json.loads(Path(file).read_text("utf-8"))
    known = [field.name for field in fields(Configuration)]
    if unknown := [name for name in document if name not in known]:
        raise ValueError(f"{file}: unknown key {unknown[0]!r}; keys: {', '.join(known)}")
    return Configuration(**document)


@cache
def configuration() -> Configuration:
    """The configuration in this process's environment."""
    return load(os.environ)
