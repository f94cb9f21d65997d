"""A worker of the demo's cluster sees a Python and a folder of its own, and nothing else that is this host's alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tandem.cli.demo import other_host
from tandem.cli.demo.other_host import FOLDER, OtherHost

PROBE = """
import json, os, pathlib, sys
folder = pathlib.Path(sys.argv[1])
(folder / "written").write_text("here")
seen = [path for path in sys.argv[2:] if os.path.exists(path)]
print(json.dumps({"seen": seen, "cwd": os.getcwd(), "environ": sorted(os.environ), "user": os.getuid()}))
"""


def test_a_worker_sees_its_python_and_its_folder_alone(tmp_path: Path) -> None:
    own, secret = tmp_path / "own", tmp_path / "state"
    secret.mkdir()
    (secret / "password").write_text("hush")
    covered, needed = other_host.hidden(tmp_path, secret, {"HOME": str(tmp_path)}), other_host.python_folders()
    host = other_host.find({"PATH": os.defpath}, tmp_path / "probe", covered, needed)
    if host.apart == "environment":
        pytest.skip("this machine allows no mount namespace")
    folder = host.folder(own)
    words = [sys.executable, "-I", "-c", PROBE, str(folder), str(secret / "password"), str(Path(__file__)), sys.prefix]
    command = host.command(words, own, covered, needed)
    done = subprocess.run(command, env={"PATH": os.defpath}, capture_output=True, text=True, check=True, cwd="/")
    found = json.loads(done.stdout)
    assert found["seen"] == [sys.prefix]
    assert (found["cwd"], folder) == ("/", FOLDER)
    assert set(found["environ"]) <= {"PATH", "PWD", "LC_CTYPE", "OLDPWD", "SHLVL", "_"}
    assert (own / "written").read_text() == "here"
    if host.apart == "mount namespace and user":
        assert found["user"] not in (0, os.getuid())


def test_without_namespaces_a_program_runs_as_it_is(tmp_path: Path) -> None:
    host = OtherHost("environment", ())
    assert host.command(["true"], tmp_path, [tmp_path], []) == ["true"]
    assert host.folder(tmp_path / "own") == tmp_path / "own"
