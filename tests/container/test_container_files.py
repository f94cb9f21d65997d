"""The files of the image and of compose: nobody is root, nothing but volumes is written, only loopback is published."""

import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from tandem.infra.folders import ROOT
from tandem.infra.settings import keys

DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
FILES = ("compose.yaml", "compose.cluster.yaml")
SERVICES = {
    (file, name): service
    for file in FILES
    for name, service in msgspec.yaml.decode((ROOT / file).read_text("utf-8"))["services"].items()
}
# What compose.cluster.yaml adds to a service of compose.yaml.
ADDED = ("compose.cluster.yaml", "tandem")
WHOLE = [name for name in SERVICES if name != ADDED]
FOLDER = ROOT / "container"
PROXY = (FOLDER / "haproxy.cfg").read_text("utf-8")
RUN = (FOLDER / "run").read_text("utf-8")


def stage(name: str) -> str:
    """The lines of one stage of the Dockerfile."""
    return next(text for text in DOCKERFILE.split("\nFROM ")[1:] if text.splitlines()[0].endswith(f" AS {name}"))


@pytest.mark.parametrize("name", ["tandem", "prometheus"])
def test_an_image_runs_as_a_user_without_rights(name: str) -> None:
    lines = stage(name).splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users[-1] == "10001:10001"
    last_write = max(number for number, line in enumerate(lines) if line.startswith(("RUN", "COPY")))
    assert last_write < lines.index("USER 10001:10001")


def test_every_stage_has_the_base_that_the_builder_names() -> None:
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${BASE}", "${BASE}"]


@pytest.mark.parametrize("name", WHOLE, ids="/".join)
def test_a_service_writes_to_its_volumes_alone_and_gains_no_rights(name: tuple[str, str]) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges"]
    assert "privileged" not in service
    mounts = [
        volume.rsplit(":", 1)
        for volume in service.get("volumes", [])
        if "/" in re.sub(r":.*", "", volume) or volume.startswith("$")
    ]
    assert all(how == "ro" for _, how in mounts)


def test_one_service_publishes_on_loopback_what_the_proxy_answers_and_all_others_share_its_network() -> None:
    holder = SERVICES["compose.yaml", "network"]
    for published in holder["ports"]:
        address, _, inner = published.split(":")
        assert address == "127.0.0.1"
        assert f"bind :{inner} ssl crt " in PROXY
    others = [SERVICES[name] for name in WHOLE if name != ("compose.yaml", "network")]
    assert {service["network_mode"] for service in others} == {"service:network"}
    assert not any("ports" in service for service in (*others, SERVICES[ADDED]))


def test_the_proxy_has_tls_at_each_address_and_answers_from_loopback() -> None:
    binds = re.findall(r"^\s+bind (.*)$", PROXY, re.MULTILINE)
    assert binds
    assert all(" ssl crt " in bind for bind in binds)
    assert all(server.strip('"').startswith("127.0.0.1:") for server in re.findall(r"^\s+server \w+ (\S+)", PROXY, re.MULTILINE))


def test_no_secret_and_no_host_is_in_the_files() -> None:
    texts = [
        DOCKERFILE,
        *((ROOT / file).read_text("utf-8") for file in FILES),
        *(file.read_text("utf-8") for file in FOLDER.rglob("*") if file.is_file()),
    ]
    for text in texts:
        assert not re.search(r"(?i)(password|secret|token)\s*[=:]\s*[\"']?\w{6,}", text)
        assert set(re.findall(r"https?://([\w.-]+)", text)) <= {"127.0.0.1"}
    environment = SERVICES["compose.yaml", "grafana"]["environment"]
    assert all(key.endswith("__FILE") for key in environment if "PASSWORD" in key)


def test_kafka_and_spark_listen_on_loopback_and_kafkas_clients_log_in() -> None:
    kafka, spark = ((FOLDER / name).read_text("utf-8") for name in ("kafka", "spark"))
    assert re.findall(r"^(?:advertised\.)?listeners=(.*)$", kafka, re.MULTILINE) == [
        "CLIENTS://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "CLIENTS://127.0.0.1:9092",
    ]
    assert "CLIENTS:SASL_PLAINTEXT" in kafka
    assert re.findall(r"--host (\S+)", spark) == ["127.0.0.1", "127.0.0.1"]


def test_the_settings_of_the_cluster_are_settings() -> None:
    given = set(SERVICES[ADDED]["environment"])
    assert given <= {key.variable for key in keys()}


def test_the_proxy_answers_for_the_default_port_of_the_page() -> None:
    port = next(key for key in keys() if key.name == "serving.port")
    assert f"server a 127.0.0.1:{port.default}" in PROXY


def test_the_container_stops_within_the_time_that_its_parts_may_take() -> None:
    assert SERVICES["compose.yaml", "tandem"]["stop_grace_period"] == "2m"
    assert "trap 'finish 0' TERM INT" in RUN


@pytest.mark.parametrize("name", ["run", "healthy", "install", "kafka", "spark"])
def test_the_scripts_can_be_read_by_their_shell(name: str) -> None:
    shell = (FOLDER / name).read_text("utf-8").partition("\n")[0].removeprefix("#!").split()[-1]
    done = subprocess.run([shell, "-n", str(FOLDER / name)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (FOLDER / name).stat().st_mode & 0o111


def test_haproxy_accepts_the_proxy(tmp_path: Path) -> None:
    if not (haproxy := shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")):
        pytest.skip("needs haproxy")
    made = tmp_path / "loopback.pem"
    subprocess.run(
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -keyout {made}.key "
        f"-out {made}.crt && cat {made}.crt {made}.key > {made}",
        shell=True,
        check=True,
        capture_output=True,
    )
    environ = {"CERTIFICATE": str(made), "TANDEM_AIRFLOW_PORT": "8641"}
    done = subprocess.run(
        [haproxy, "-c", "-f", str(FOLDER / "haproxy.cfg")], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
