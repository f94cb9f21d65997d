"""`./tandem`: set up once, resumed where it was interrupted, never twice at once, and plain sentences where it cannot be.

The package client and Java are stand-ins on the PATH that do what the real ones do to the file system; what is tested is the
order of things. The real ones run in CI, from a clean clone.
"""

import os
import shutil
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT
from tandem.infra.java import jars, java_home, network
from tests.stack import environ

TOOLS = (
    *("sh", "cat", "cksum", "dirname", "readlink", "date", "mkdir", "rm", "mv", "ln", "chmod"),
    *("grep", "sleep", "tail", "paste", "sort"),
)

# Makes an environment whose python is this one, and counts what it is asked to install.
UV = f"""#!/bin/sh
case $1 in
venv) for last do :; done; mkdir -p "$last/bin"
      printf '#!/bin/sh\\nexec "{sys.executable}" "$@"\\n' >"$last/bin/python"; chmod +x "$last/bin/python" ;;
pip) sleep 0.3; for last do :; done; echo "$last" >>"$LOG"; [ ! -e "$FAIL" ] ;;
esac
"""
# A Python whose environments have pip but not uv. Its pip installs a uv, which then installs packages as UV does.
PIP = f"""#!/bin/sh
case "$1 $2 $3" in
"-m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
"-m pip config") cat "$PIP_SETTINGS" 2>/dev/null || true ;;
"-m pip install")
      for last do :; done; echo "pip ${{last##*/}}" >>"$LOG"
      case $last in */uv.lock)
          printf '%s\\n' '#!/bin/sh' 'for last do :; done; echo "uv ${{last##*/}}" >>"$LOG"; [ ! -e "$FAIL" ]' >"${{0%/*}}/uv"
          chmod +x "${{0%/*}}/uv" ;;
      esac ;;
*) exec "{sys.executable}" "$@" ;;
esac
"""
JARS = jars.folder({})
OWN = f"python3.{sys.version_info.minor}"
# Says that it is 17; as Ivy, links the jars of this checkout to where they belong.
JAVA = f"""#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.1"' >&2; exit; fi
echo ivy >>"$LOG"
for last do :; done
to=${{last%%/\\[conf\\]*}}
for group in spark broker jdbc; do
mkdir -p "$to/$group"; for jar in "{JARS}"/$group/*.jar; do ln -sf "$jar" "$to/$group/"; done; done
[ ! -e "$ALTER" ] || {{ rm "$to/broker/jopt-simple-5.0.4.jar"; echo altered >"$to/broker/jopt-simple-5.0.4.jar"; }}
"""
# Makes what is asked for, or says why not.
CLASSES = """
import os, sys
from pathlib import Path
if os.path.exists(os.environ["BARE"]): sys.exit("tandem: no archive")
with Path(os.environ["LOG"]).open("a") as log: print("classes", file=log)
"""


class Checkout:
    """A copy of what set-up needs, with stand-ins for what reaches the network; `log` is what they were asked for."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "check out"
        (self.root / "infra" / "spark").mkdir(parents=True)
        shutil.copy(ROOT / "tandem", self.root)
        shutil.copy(ROOT / "infra" / "set-up", self.root / "infra")
        shutil.copy(ROOT / "infra" / "__init__.py", self.root / "infra")
        for room in ("locks", "java", "files"):
            shutil.copytree(ROOT / "infra" / room, self.root / "infra" / room, ignore=shutil.ignore_patterns("__pycache__"))
        (self.root / "infra" / "spark" / "cds_archive.py").write_text(CLASSES)
        public = self.root / "src" / "tandem"
        shutil.copytree(ROOT / "src" / "tandem", public, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        (self.root / "cli").mkdir()
        (self.root / "cli" / "__main__.py").write_text("import sys; print('ran', *sys.argv[1:])\n")
        self.tools = folder / "tools"
        self.tools.mkdir()
        for tool in TOOLS:
            (self.tools / tool).symlink_to(str(shutil.which(tool)))
        self.put(OWN, f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        self.put("uv", UV)
        self.put("java", JAVA)
        self.variables: dict[str, str] = {}
        self.files = {name: folder / name.lower() for name in ("LOG", "FAIL", "ALTER", "BARE")}

    def put(self, name: str, script: str) -> None:
        (self.tools / name).write_text(script)
        (self.tools / name).chmod(0o755)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        variables = {"PATH": str(self.tools), **self.variables} | {name: str(path) for name, path in self.files.items()}
        command = [str(self.root / "tandem"), *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    @property
    def log(self) -> list[str]:
        return [Path(line).name for line in self.files["LOG"].read_text().splitlines()] if self.files["LOG"].exists() else []


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_first_use_sets_up_and_later_ones_do_nothing_from_anywhere(checkout: Checkout, tmp_path: Path) -> None:
    code, out, err = checkout.run("one", "two  words")
    assert (code, out) == (0, "ran one two  words\n")
    assert sorted(checkout.log) == ["classes", "ivy", "requirements.lock", "spark.lock"]
    assert "installing PySpark" in err
    assert "jars are there and match their hashes" in err
    for tool in ("uv", "java", OWN):
        (checkout.tools / tool).unlink()
    assert checkout.run("again") == (0, "ran again\n", "")
    (tmp_path / "link").symlink_to("check out/tandem")
    done = subprocess.run(
        [tmp_path / "link", "x"], cwd="/", capture_output=True, text=True, check=False, env={"PATH": str(checkout.tools)}
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran x\n", "")


@pytest.mark.each_run("-True-*")
@pytest.mark.parametrize(
    ("settings", "fails", "log"),
    [
        ("", False, ["pip uv.lock", "uv requirements.lock", "uv spark.lock"]),
        # uv would ask elsewhere than pip is told to.
        ("global.index-url='https://mirror.example/python'", False, ["pip requirements.lock", "pip spark.lock"]),
        ("", True, ["pip requirements.lock", "pip spark.lock", "pip uv.lock", "uv requirements.lock", "uv spark.lock"]),
    ],
)
def test_pip_installs_uv_and_what_uv_may_not_or_cannot(
    checkout: Checkout, tmp_path: Path, *, settings: str, fails: bool, log: list[str]
) -> None:
    (checkout.tools / "uv").unlink()
    (checkout.tools / "cp").symlink_to(str(shutil.which("cp")))
    checkout.put(OWN, PIP)
    (tmp_path / "pip settings").write_text(settings)
    checkout.variables["PIP_SETTINGS"] = str(tmp_path / "pip settings")
    if fails:
        checkout.files["FAIL"].touch()
    assert checkout.run("one")[:2] == (0, "ran one\n")
    assert sorted(line for line in checkout.log if line.startswith(("pip ", "uv "))) == log


@pytest.mark.slow
def test_a_changed_lock_is_installed_and_lost_jars_are_fetched_again(checkout: Checkout) -> None:
    checkout.run()
    shutil.rmtree(checkout.root / ".tandem")
    assert checkout.run()[0] == 0
    assert checkout.log.count("ivy") == 2
    with (checkout.root / "infra" / "locks" / "requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    assert checkout.run()[0] == 0
    assert checkout.log.count("requirements.lock") == 3


def test_an_interrupted_or_failed_set_up_continues(checkout: Checkout) -> None:
    checkout.files["FAIL"].touch()
    code, out, err = checkout.run()
    assert (code, out) == (1, "")
    assert "tandem: PySpark could not be installed; the lines above give the reason." in err
    checkout.files["FAIL"].unlink()
    killed = checkout.start()
    while "spark.lock" not in checkout.log[1:]:
        time.sleep(0.02)
    killed.kill()
    killed.communicate()
    code, out, err = checkout.run("now")
    assert (code, out) == (0, "ran now\n")
    assert "making .venv" not in err


def test_two_set_ups_at_once_install_once(checkout: Checkout) -> None:
    both = [checkout.start("x"), checkout.start("x")]
    ends = [process.communicate(timeout=300) for process in both]
    assert [out for out, _ in ends] == ["ran x\n", "ran x\n"]
    assert sorted(checkout.log) == ["classes", "ivy", "requirements.lock", "spark.lock"]
    assert sum("waiting for another set-up" in err for _, err in ends) == 1


def test_a_jar_that_is_not_the_pinned_one_is_refused(checkout: Checkout) -> None:
    checkout.files["ALTER"].touch()
    code, out, err = checkout.run()
    assert (code, out) == (1, "")
    assert "infra/locks/jars.lock: " in err
    assert checkout.run()[0] == 1


def says(version: str, *, runs: bool = True) -> str:
    """A Python that says that it is of this version and is this one; or a name without a Python, as pyenv's may be."""
    if not runs:
        return "#!/bin/sh\necho 'pyenv: command not found' >&2\nexit 127\n"
    return f"""#!/bin/sh
case "$1 $2" in
--version*) echo Python {version}.7 ;;
"-c "*version_info*print* | "-c "*print*version_info*) echo {version} ;;
*) exec "{sys.executable}" "$@" ;;
esac
"""


def test_without_a_supported_python_there_is_one_sentence(checkout: Checkout) -> None:
    (checkout.tools / OWN).unlink()
    checkout.put("python3", says("3.14"))
    code, out, err = checkout.run()
    assert (code, out) == (1, "")
    needed = "Python 3.11, 3.12 or 3.13 with its venv module is needed"
    assert err == f"tandem: {needed}; found Python 3.14.7: install one, or name it in TANDEM_PYTHON.\n"


def test_the_newest_working_python_is_used_and_named(checkout: Checkout) -> None:
    (checkout.tools / OWN).unlink()
    checkout.put("python3.13", says("3.13", runs=False))
    checkout.put("python3.11", says("3.11"))
    checkout.put("python3", says("3.12"))
    code, out, err = checkout.run("x")
    assert (code, out) == (0, "ran x\n")
    assert f"making .venv with Python 3.12.7, {checkout.tools / 'python3'}\n" in err


def test_a_named_python_is_used(checkout: Checkout) -> None:
    checkout.put("python3.13", says("3.13"))
    checkout.put("my python", says("3.11"))
    checkout.variables["TANDEM_PYTHON"] = str(checkout.tools / "my python")
    code, _, err = checkout.run()
    assert code == 0
    assert f"making .venv with Python 3.11.7, {checkout.tools / 'my python'}\n" in err
    checkout.variables["TANDEM_PYTHON"] = str(checkout.tools / "none")
    shutil.rmtree(checkout.root / ".venv")
    assert checkout.run()[0] == 1


@pytest.mark.spark
def test_java_reads_the_created_trust_store(tmp_path: Path) -> None:
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not certificates:
        pytest.skip("this Python trusts no certificates")
    store = tmp_path / "store"
    store.write_bytes(network.trust_store(certificates))
    keytool = java_home.find(environ()).home / "bin" / "keytool"
    done = subprocess.run(
        [keytool, "-list", "-keystore", store, "-storepass", "changeit"],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert f"Your keystore contains {len(certificates)} entr" in done.stdout


def test_java_uses_the_same_proxy_as_python(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    assert network.proxy_options() == []
    monkeypatch.setenv("https_proxy", "http://name:secret@proxy.example:3128")
    monkeypatch.setenv("no_proxy", ".inside, localhost")
    assert network.proxy_options() == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=*.inside|localhost",
    ]
