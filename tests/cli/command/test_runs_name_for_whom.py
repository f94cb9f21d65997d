"""The commits of a batch command name for whom it runs: `history` shows a user, a token or a DAG."""

import getpass
from pathlib import Path

import pytest

from tandem.cli.command.batch_run import batch_run
from tandem.cli.command.call import Call


@pytest.mark.parametrize("command", ["recompute", "apply", "archive"])
def test_a_run_names_the_command_and_for_whom(tmp_path: Path, command: str) -> None:
    (tmp_path / "tandem.toml").touch()
    for environ, name in (({}, getpass.getuser()), ({"TANDEM_WHO": "Airflow, DAG recompute"}, "Airflow, DAG recompute")):
        with batch_run(Call(tmp_path, json=False, debug=False, environ=environ), command) as batch:
            assert batch.by == f"{command} ({name})"
