"""The manifests: no pod is root or writes outside its volumes, and only drivers of executors may call the API server."""

import re
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tandem.infra.folders import ROOT
from tandem.infra.spark.cluster import of_own_pod

FOLDER = ROOT / "container" / "kubernetes"


def documents(file: Path) -> list[dict[str, Any]]:
    parts = [part for part in re.split(r"^---$", file.read_text("utf-8"), flags=re.MULTILINE) if part.strip()]
    return [msgspec.yaml.decode(part) for part in parts]


MANIFESTS = {
    f"{file.relative_to(FOLDER)}/{document['kind']}": document
    for file in sorted(FOLDER.rglob("*.yaml"))
    for document in documents(file)
}
PODS = {
    name: document["spec"] if document["kind"] == "Pod" else document["spec"]["template"]["spec"]
    for name, document in MANIFESTS.items()
    if document["kind"] in ("Pod", "Deployment", "StatefulSet")
}


def test_every_file_is_named_by_a_kustomization_or_is_a_template() -> None:
    for kustomization in FOLDER.rglob("kustomization.yaml"):
        (document,) = documents(kustomization)
        others = {file.name for file in kustomization.parent.glob("*.yaml")} - {"kustomization.yaml", "pod.yaml", "task-pod.yaml"}
        assert others == set(document["resources"])


@pytest.mark.parametrize("name", PODS)
def test_a_pod_has_the_least_rights(name: str) -> None:
    spec = PODS[name]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 10001
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    volumes = {volume["name"]: set(volume) - {"name"} for volume in spec["volumes"]}
    assert all(kind <= {"emptyDir", "configMap", "secret"} for kind in volumes.values())
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        for mount in container["volumeMounts"]:
            assert mount.get("readOnly") is True or volumes[mount["name"]] == {"emptyDir"}


def test_only_drivers_of_executors_have_a_token_of_the_api_server() -> None:
    assert MANIFESTS["account.yaml/ServiceAccount"]["automountServiceAccountToken"] is False
    assert MANIFESTS["executors/rights.yaml/ServiceAccount"]["automountServiceAccountToken"] is False
    assert PODS["executors/pod.yaml/Pod"]["automountServiceAccountToken"] is False
    (rule,) = MANIFESTS["executors/rights.yaml/Role"]["rules"]
    assert "*" not in [*rule["resources"], *rule["verbs"]]


def test_a_driver_names_its_own_pod_only_where_it_is_in_one(tmp_path: Path) -> None:
    assert of_own_pod(tmp_path / "namespace") == {}
    (tmp_path / "namespace").write_text("shop\n")
    properties = of_own_pod(tmp_path / "namespace")
    assert properties.pop("spark.kubernetes.driver.pod.name")
    assert properties == {"spark.kubernetes.namespace": "shop"}


@pytest.mark.parametrize("script", ["speed", "task", "spark", "run", "install"])
def test_what_containers_start_is_a_script_that_parses(script: str) -> None:
    path = ROOT / "container" / script
    shell = path.read_text("utf-8").splitlines()[0].rsplit("/", 1)[-1].split()[-1]
    subprocess.run([shell, "-n", str(path)], check=True)
    assert path.stat().st_mode & 0o111


def test_a_task_gives_back_the_code_and_the_document_of_its_command(tmp_path: Path) -> None:
    (tmp_path / "tandem").write_text('#!/bin/sh\necho line >&2\necho "{\\"words\\": \\"$*\\"}"\nexit 3\n')
    (tmp_path / "tandem").chmod(0o755)
    script = (ROOT / "container" / "task").read_text("utf-8").replace("/airflow/xcom", str(tmp_path))
    done = subprocess.run(
        ["sh", "-c", script, "task", "plan", "--json"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        check=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("", "line\n")
    assert msgspec.json.decode((tmp_path / "return.json").read_bytes()) == {"code": 3, "document": {"words": "plan --json"}}
