"""A local Airflow: its configuration, and the three processes that it needs here.

State is in the state folder: SQLite, two tasks at a time, everything on 127.0.0.1. Airflow reads a task's log from its file,
so no process serves logs. A task that waits for a person is a row of the database, so no triggerer runs.
"""

import json
import os
import secrets
import subprocess
import urllib.request
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from configparser import ConfigParser
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from tandem.infra import folders
from tandem.infra.airflow import packages
from tandem.infra.files import private_files
from tandem.infra.locks.environment import Environment
from tandem.infra.process import background
from tandem.infra.process.background import BackgroundProcess
from tandem.infra.process.ports import HOST, free, unused
from tandem.infra.settings import Settings
from tandem.views.errors import TandemError

API: Final = "airflow-api"
DAGS: Final = "airflow-dags"
SCHEDULER: Final = "airflow-scheduler"
NAMES: Final = (API, DAGS, SCHEDULER)
USER: Final = "admin"
_COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    API: ("api-server",),
    DAGS: ("dag-processor",),
    SCHEDULER: ("scheduler", "--skip-serve-logs"),
}
_HEALTH: Final = {API: "metadatabase", DAGS: "dag_processor", SCHEDULER: "scheduler"}
"""The name of each process in Airflow's health document."""
READY_S: Final = 240.0
OUR_DAGS: Final = frozenset(
    {"maintain", "published_days", "recompute", "recompute_days", "recompute_full", "reprocess", "verify", "watch_log"}
)
"""The DAGs of `dags/`, which Airflow reads one by one, in any order."""


class AirflowPortTaken(TandemError, code="airflow-port-taken"):
    """Another program listens on the port of Airflow's API."""


class NotPrepared(TandemError, code="airflow-not-prepared"):
    """Airflow's database could not be created."""


@dataclass(frozen=True)
class PreparedAirflow:
    """The address of Airflow; only the call that created the password returns it."""

    address: str
    password: str | None


def home(settings: Settings) -> Path:
    """Airflow's own folder: $AIRFLOW_HOME."""
    return settings.folder / "airflow"


def passwords(settings: Settings) -> Path:
    """The file of Airflow's users' passwords."""
    return home(settings) / "passwords.json"


def address(settings: Settings) -> str | None:
    """The address of its pages and its API, while they run."""
    if background.running(settings.folder, API) is None:
        return None
    return f"http://{HOST}:{_remembered(settings)}"


def environment(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of Airflow's processes and command line, without the platform's own packages."""
    dropped = ("PYTHONSAFEPATH", "VIRTUAL_ENV")
    kept = {name: value for name, value in environ.items() if name not in dropped}
    folder, installed = home(settings), packages.environment(environ)
    return kept | {
        "AIRFLOW_HOME": str(folder),
        "TANDEM_AIRFLOW": str(folder / "tandem.json"),
        # Users' own DAGs import from our folder; a bundle's folder is importable only to its own DAGs.
        "PYTHONPATH": str(folders.DAGS),
        "PATH": os.pathsep.join([str(installed.command("airflow").parent), environ.get("PATH", os.defpath)]),
    }


def prepare(settings: Settings, project: Path, *, environ: Mapping[str, str], say: Callable[[str], None]) -> PreparedAirflow:
    """Install, configure and migrate Airflow as far as needed for its start; the caller holds `background.starting`.

    Changes nothing while its API runs. Raises NotInstalled, AirflowPortTaken, NotPrepared.
    """
    installed = packages.environment(environ)
    installed.provide(say, environ=environ)
    if found := address(settings):
        return PreparedAirflow(found, None)
    port = _port(settings)
    password = _configure(settings, project, port, environ)
    _migrate(settings, installed, environment(settings, environ), say)
    return PreparedAirflow(f"http://{HOST}:{port}", password)


def begin(settings: Settings, name: str, *, environ: Mapping[str, str], dies_with_us: bool = False) -> BackgroundProcess:
    """Start one of its processes, once Airflow is prepared, and return at once; `dies_with_us` as in `background.spawn`."""
    command = [str(packages.environment(environ).command("airflow")), *_COMMANDS[name]]
    variables = environment(settings, environ)
    return background.spawn(settings.folder, name, command, environ=variables, folder=home(settings), dies_with_us=dies_with_us)


def healthy(settings: Settings, name: str, *, since: datetime) -> bool:
    """Whether Airflow's API answers and reports this process as healthy, by a heartbeat of it after `since`."""
    try:
        found = health(f"http://{HOST}:{_remembered(settings)}").get(_HEALTH[name]) or {}
    except (OSError, ValueError):
        return False
    heard = found.get(f"latest_{_HEALTH[name]}_heartbeat")
    fresh = name == API or (heard is not None and datetime.fromisoformat(heard) >= since)
    return found.get("status") == "healthy" and fresh


def parsed(settings: Settings) -> bool:
    """Whether the DAG processor has read our own DAGs, which it does after its start."""
    try:
        for dag in OUR_DAGS:
            ask(f"http://{HOST}:{_remembered(settings)}", passwords(settings), f"/dags/{dag}")
    except (OSError, ValueError):
        return False
    return True


def _configure(settings: Settings, project: Path, port: int, environ: Mapping[str, str]) -> str | None:
    """Write airflow.cfg and the configuration of our DAGs. The first call creates the password and returns it."""
    folder = home(settings)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    password = None
    if not passwords(settings).exists():
        password = secrets.token_urlsafe(12)
        private_files.write(passwords(settings), json.dumps({USER: password}) + "\n")
    configuration = ConfigParser(interpolation=None)
    configuration.read_dict(_sections(settings, project, port, _kept_secrets(folder)))
    text = msgspec.json.encode(
        {**_of_dags(settings, project, environ), "api": f"http://{HOST}:{port}", "passwords": str(passwords(settings))}
    )
    private_files.write(folder / "tandem.json", text.decode() + "\n")
    with private_files.opened(folder / "airflow.cfg.new") as file:
        configuration.write(file)
    (folder / "airflow.cfg.new").replace(folder / "airflow.cfg")
    (folder / "port").write_text(str(port), "ascii")
    return password


def _of_dags(settings: Settings, project: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    chosen = msgspec.structs.asdict(settings.airflow)
    del chosen["port"]
    return {"tandem": str(folders.command(environ)), "project": str(project), "name": project.name, **chosen}


def _sections(settings: Settings, project: Path, port: int, hidden: Mapping[str, str]) -> dict[str, dict[str, str]]:
    folder, found = home(settings), f"http://{HOST}:{port}"
    bundles = {"tandem": folders.DAGS, **({"project": project / "dags"} if (project / "dags").is_dir() else {})}
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    listed = [{"name": name, "classpath": local, "kwargs": {"path": str(path)}} for name, path in bundles.items()]

    def escaped(text: str) -> str:
        # Airflow reads its file with interpolation.
        return text.replace("%", "%%")

    sections = {
        "core": {
            "dags_folder": str(folders.DAGS),
            "load_examples": "False",
            "executor": "LocalExecutor",
            "parallelism": "2",
            "max_active_tasks_per_dag": "2",
            "fernet_key": hidden["fernet"],
            "execution_api_server_url": f"{found}/execution/",
            "auth_manager": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
            "simple_auth_manager_users": f"{USER}:admin",
            "simple_auth_manager_passwords_file": str(passwords(settings)),
        },
        "database": {"sql_alchemy_conn": f"sqlite:///{folder / 'airflow.db'}"},
        "logging": {"base_log_folder": str(folder / "logs")},
        "api": {
            "host": HOST,
            "port": str(port),
            "base_url": found,
            "workers": "1",
            "secret_key": hidden["api"],
            "instance_name": f"Tandem: {project.name}",
        },
        # A machine that is busy with Spark answers late.
        "workers": {"execution_api_timeout": "30"},
        "api_auth": {"jwt_secret": hidden["jwt"]},
        "scheduler": {
            "scheduler_health_check_server_host": HOST,
            "enable_health_check": "False",
            # A worker that was killed is found after a minute.
            "task_instance_heartbeat_timeout": "60",
        },
        "dag_processor": {
            "dag_bundle_config_list": json.dumps(listed),
            "refresh_interval": "10",
            "min_file_process_interval": "30",
            "parsing_processes": "1",
        },
    }
    return {name: {key: escaped(value) for key, value in keys.items()} for name, keys in sections.items()}


def _kept_secrets(folder: Path) -> Mapping[str, str]:
    """The keys that Airflow signs and encrypts with, made once."""
    path = folder / "keys.json"
    if not path.exists():
        fernet = urlsafe_b64encode(secrets.token_bytes(32)).decode("ascii")
        private_files.write(
            path, json.dumps({"fernet": fernet, "api": secrets.token_urlsafe(32), "jwt": secrets.token_urlsafe(48)})
        )
    kept: dict[str, str] = json.loads(path.read_text("ascii"))
    return kept


def _migrate(settings: Settings, installed: Environment, variables: Mapping[str, str], say: Callable[[str], None]) -> None:
    stamp = home(settings) / "migrated"
    wanted = installed.stamp()
    if stamp.exists() and stamp.read_text("ascii") == wanted:
        return
    say("creating Airflow's database")
    done = subprocess.run(  # noqa: S603 - our own command
        [str(installed.command("airflow")), "db", "migrate"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=dict(variables),
        cwd=home(settings),
    )
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise NotPrepared(f"cannot create Airflow's database: {lines[-1] if lines else 'no message'}")
    stamp.write_text(wanted, "ascii")


def _port(settings: Settings) -> int:
    """The configured port, which must be free; else the port of the last start, if it is free; else a free one."""
    configured, remembered = settings.airflow.port, _remembered(settings)
    if configured:
        if not free(configured):
            raise AirflowPortTaken(
                f"another program uses port {configured} on {HOST} (airflow.port); stop it, or set airflow.port to "
                "another port or to 0"
            )
        return configured
    return remembered if remembered and free(remembered) else unused()


def _remembered(settings: Settings) -> int:
    try:
        return int((home(settings) / "port").read_text("ascii"))
    except (OSError, ValueError):
        return 0


_SECONDS: Final = 60


def ask(address: str, passwords: Path, path: str) -> Any:
    """The API's answer to a GET. Raises OSError, also urllib's HTTPError."""
    user, password = next(iter(json.loads(passwords.read_text("utf-8")).items()))
    token = _request(f"{address}/auth/token", {"username": user, "password": password})["access_token"]
    return _request(f"{address}/api/v2{path}", token=token)


def health(address: str) -> dict[str, Any]:
    """The health that each part reports; needs no password. Raises OSError."""
    found: dict[str, Any] = _request(f"{address}/api/v2/monitor/health")
    return found


def _request(address: str, document: Any = None, *, token: str = "") -> Any:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(  # noqa: S310 - the address of our own Airflow
        address, None if document is None else json.dumps(document).encode(), headers
    )
    # No proxy: it is this machine.
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=_SECONDS) as answer:
        return json.loads(answer.read())
