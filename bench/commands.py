"""Runs Tandem's commands for a benchmark: as processes with a share of the machine, which always end with it."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tandem.bench.process_tree import stop
from tandem.infra import kafka
from tandem.infra.folders import child_environment
from tandem.views.errors import TandemError


@dataclass(frozen=True)
class BenchProject:
    """The place of a run: an empty folder, a broker, the cores and the memory of Spark's driver."""

    folder: Path
    connection: kafka.BrokerConnection
    cores: int
    memory: str


@contextmanager
def running(
    place: BenchProject, state: Path, definitions: str, command: str, *arguments: str, extra: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A command on a project of these definitions; at the end it is stopped with all its children.

    Its output is in the folder of the state, in `COMMAND.out` and `COMMAND.err`.
    """
    project = state / "project"
    project.mkdir(parents=True, exist_ok=True)
    (project / "tandem.toml").touch()
    (project / "definitions.py").write_text(definitions)
    with (state / f"{command}.out").open("wb") as out, (state / f"{command}.err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "tandem.cli", command, *arguments, "--project", str(project), "--json"],
            stdout=out,
            stderr=err,
            env=environ(
                {
                    "TANDEM_STATE": str(state / "tandem"),
                    "TANDEM_STORAGE_ROOT": "",
                    **reached(place.connection.address),
                    "TANDEM_SPARK_MASTER": f"local[{place.cores}]",
                    "TANDEM_SPARK_DRIVER_MEMORY": place.memory,
                    **(extra or {}),
                }
            ),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        stop(process)


def until_ended(process: subprocess.Popen[bytes], limit_s: float, state: Path) -> None:
    """Wait for a command. Raises TandemError if it fails, or takes longer."""
    try:
        code = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        raise TandemError(f"not within {limit_s:.0f} s; its output is in {state}") from None
    if code:
        raise TandemError(f"a command of the benchmark ended with exit code {code}; its output is in {state}")


def reached(address: kafka.Address) -> dict[str, str]:
    """What makes a `tandem` command use the benchmark's broker."""
    told = address.options
    return {
        "TANDEM_KAFKA_BOOTSTRAP": address.bootstrap,
        "TANDEM_KAFKA_SECURITY": told["security.protocol"],
        "TANDEM_KAFKA_MECHANISM": told["sasl.mechanism"],
        "TANDEM_KAFKA_USERNAME": told["sasl.username"],
        "TANDEM_KAFKA_PASSWORD": told["sasl.password"],
    }


def environ(extra: dict[str, str]) -> dict[str, str]:
    """The environment of a system's process: no settings of whoever runs the benchmark."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TANDEM_")}
    return {**child_environment(inherited), "PYSPARK_PYTHON": sys.executable, **extra}


def cores() -> int:
    """The cores that this process may use."""
    return len(psutil.Process().cpu_affinity()) if sys.platform == "linux" else os.cpu_count() or 1
