"""The configuration of a local Airflow: loopback, two slots, no packages of the platform, private secrets."""

import json
import socket
import stat
from configparser import ConfigParser
from pathlib import Path

import msgspec
import pytest

from tandem.infra.airflow import local_airflow, packages
from tandem.infra.folders import ROOT
from tandem.infra.process.ports import unused
from tandem.infra.settings import AirflowSettings, Settings


def configured(tmp_path: Path, **changes: object) -> tuple[Settings, ConfigParser, str | None]:
    settings = Settings(state=str(tmp_path / "state"), airflow=AirflowSettings(**changes))  # type: ignore[arg-type]
    password = local_airflow._configure(settings, tmp_path / "my_shop", 4711, {})
    parser = ConfigParser()
    parser.read(local_airflow.home(settings) / "airflow.cfg")
    return settings, parser, password


def test_airflow_listens_on_loopback_with_two_slots(tmp_path: Path) -> None:
    settings, parser, _ = configured(tmp_path)
    assert (parser["api"]["host"], parser["api"]["port"]) == ("127.0.0.1", "4711")
    assert parser["core"]["parallelism"] == "2"
    assert parser["core"]["execution_api_server_url"] == "http://127.0.0.1:4711/execution/"
    assert "--skip-serve-logs" in local_airflow._COMMANDS[local_airflow.SCHEDULER]
    (bundle,) = json.loads(parser["dag_processor"]["dag_bundle_config_list"])
    assert bundle["kwargs"] == {"path": str(ROOT / "dags")}
    assert local_airflow.address(settings) is None


def test_a_projects_own_dags_are_loaded_too(tmp_path: Path) -> None:
    (tmp_path / "my_shop" / "dags").mkdir(parents=True)
    _, parser, _ = configured(tmp_path)
    bundles = json.loads(parser["dag_processor"]["dag_bundle_config_list"])
    assert [bundle["name"] for bundle in bundles] == ["tandem", "project"]


def test_secrets_are_created_once_and_private(tmp_path: Path) -> None:
    settings, first, password = configured(tmp_path)
    assert password is not None
    _, second, again = configured(tmp_path)
    assert again is None
    assert first["api_auth"]["jwt_secret"] == second["api_auth"]["jwt_secret"]
    home = local_airflow.home(settings)
    files = ("airflow.cfg", "passwords.json", "keys.json", "tandem.json")
    assert {stat.S_IMODE((home / name).stat().st_mode) for name in files} == {0o600}
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert json.loads(local_airflow.passwords(settings).read_text()) == {"admin": password}


def test_dags_get_the_settings(tmp_path: Path) -> None:
    settings, _, _ = configured(tmp_path, recompute="*/5 * * * *", full="")
    told = json.loads((local_airflow.home(settings) / "tandem.json").read_text())
    chosen = msgspec.structs.asdict(settings.airflow)
    del chosen["port"]
    assert {name: told[name] for name in chosen} == chosen
    assert (told["project"], told["name"], told["api"]) == (str(tmp_path / "my_shop"), "my_shop", "http://127.0.0.1:4711")


def test_airflows_processes_see_no_package_of_the_platform(tmp_path: Path) -> None:
    given = {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1", "PATH": "/bin", "TANDEM_STATE": "x"}
    variables = local_airflow.environment(Settings(state=str(tmp_path)), given)
    assert variables["PYTHONPATH"] == str(ROOT / "dags")
    assert variables["PATH"] == f"{packages.environment({}).folder / 'bin'}:/bin"
    assert variables["TANDEM_STATE"] == "x"
    assert "PYTHONSAFEPATH" not in variables


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            local_airflow.AirflowPortTaken, match=rf"another program uses port {port} on 127.0.0.1 \(airflow.port\)"
        ):
            local_airflow._port(Settings(state=str(tmp_path), airflow=AirflowSettings(port=port)))
    assert local_airflow._port(Settings(state=str(tmp_path), airflow=AirflowSettings(port=unused()))) > 0
