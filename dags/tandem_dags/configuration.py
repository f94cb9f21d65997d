"""The one thing that is read when DAGs are parsed: a small JSON file, named by $TANDEM_AIRFLOW.

`tandem up --airflow` writes it from `[airflow]` of tandem.toml. In an Airflow of your own it may be as short as
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
    """Which command, which project, and when; schedules are cron expressions in UTC, empty for none.

    `name` is what the project is called in the names of assets, its folder's name unless given. `api` and `passwords` are where
    Airflow's REST API and the file of its users' passwords are, for the notes of runs; without them there are none.
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
    api: str = ""
    passwords: str = ""

    @property
    def called(self) -> str:
        """The project's name."""
        return self.name or Path(self.project).name


def load(environ: Mapping[str, str]) -> Configuration:
    """The configuration that the variable names; all defaults without one. Raises ValueError for a key that does not exist."""
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
    """What this process was started with."""
    return load(os.environ)
