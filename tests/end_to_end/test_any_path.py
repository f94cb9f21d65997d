"""A checkout in any folder: set-up and the whole demo below a path with a space, a quote and a letter that is not ASCII."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT
from tests.stack import environ

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.mark.timeout(3600)
def test_a_checkout_sets_itself_up_and_the_demo_is_exact_in_such_a_path(tmp_path: Path) -> None:
    """Set-up may take packages and jars from the caches of their clients."""
    checkout = tmp_path / "my data's é" / "tandem"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).exists():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name, follow_symlinks=False)
    clean = {name: value for name, value in environ().items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    done = subprocess.run(
        ["./tandem", "demo", "--once", "--events=8000", "--json"],
        cwd=checkout,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
        timeout=3500,
    )
    assert done.returncode == 0, done.stderr
    assert [(check["name"], check["differ"]) for check in json.loads(done.stdout)["checks"]] == [
        ("tail", 0),
        ("batch", 0),
        ("restart", 0),
    ]
    assert "Java archives no classes of jars below" in done.stderr
    assert (checkout / ".venv" / "ready").is_file()
    assert (checkout / ".tandem" / "demo" / "demo" / "logs" / "speed.log").is_file()
