"""Tandem on a real Kubernetes: every answer is the fold of the records below its position, while pods end.

It needs Kubernetes' programs on the PATH (`one_node.py`), root, and the image as an archive, which TEST_IMAGE_ARCHIVE names.
Where TEST_AIRFLOW names the `airflow` of an environment with the provider of Kubernetes, a DAG runs there, too.
"""

import json
import os
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, TopicPartition

from tandem.infra.folders import ROOT
from tests.kubernetes import one_node
from tests.kubernetes.one_node import Node
from tests.kubernetes.servers import Servers, servers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
_SPACE: Final = "shop"
_IMAGE: Final = "localhost/tandem"
_PATIENCE_S: Final = 240
_CUT_SMALL: Final = """\
- target: {kind: Deployment}
  patch: |-
    - {op: replace, path: /spec/replicas, value: 3}
    - {op: replace, path: /spec/template/spec/containers/0/resources/requests/cpu, value: 10m}
- target: {kind: StatefulSet}
  patch: |-
    - {op: replace, path: /spec/template/spec/containers/0/resources/requests/cpu, value: 10m}
"""
_EXECUTORS: Final = """
[spark]
master = "k8s://https://10.96.0.1:443"
python = "/opt/tandem/.venv/bin/python"
cores_max = 2
executor_memory = "600m"

[spark.conf]
"spark.kubernetes.container.image" = "localhost/tandem:1"
"spark.kubernetes.executor.podTemplateFile" = "/opt/tandem/container/kubernetes/executors/pod.yaml"
"spark.kubernetes.authenticate.executor.serviceAccountName" = "executor"
"spark.kubernetes.executor.request.cores" = "0.1"
"""


@dataclass
class Shop:
    """The deployed project; `token` may read."""

    node: Node
    outside: Servers
    folder: Path
    token: str = ""
    at: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def kubectl(self, *words: str, **options: Any) -> str:
        return self.node.kubectl("--namespace", _SPACE, *words, **options)

    def tandem(self, *words: str, stdin: str | None = None, pod: str = "speed-0") -> str:
        return self.kubectl("exec", "-i", pod, "--", "tandem", *words, stdin=stdin, seconds=_PATIENCE_S)

    def apply(self, settings: str = "", components: tuple[str, ...] = ()) -> None:
        """Deploy the project as docs/kubernetes.md describes, and wait until all pods run."""
        (self.folder / "tandem.toml").write_text(self.outside.toml() + settings, "utf-8")
        manifests = os.path.relpath(ROOT / "container" / "kubernetes", self.folder)
        kustomization = (
            f"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: {_SPACE}\nresources: [{manifests}]\n"
            f"components: {json.dumps([f'{manifests}/{name}' for name in components])}\n"
            f"generatorOptions: {{disableNameSuffixHash: true}}\n"
            f"configMapGenerator: [{{name: project, files: [tandem.toml, definitions.py]}}]\n"
            f"images: [{{name: tandem, newName: {_IMAGE}, newTag: '1'}}]\npatches:\n{_CUT_SMALL}"
        )
        (self.folder / "kustomization.yaml").write_text(kustomization, "utf-8")
        self.node.kubectl("apply", "-k", str(self.folder))
        if self.token:
            self.kubectl("rollout", "restart", "statefulset/speed", "deployment/serve")
        self.until(lambda: all(map(self._rolled_out, ("statefulset/speed", "deployment/serve"))))
        self.wait_for_speed()

    def kill(self, pod: str) -> None:
        """End a pod at once, as `get -o name` names it."""
        self.kubectl("delete", pod, "--grace-period=0", "--force")

    def wait_for_speed(self) -> None:
        """Wait until the speed layer is ready."""
        self.until(lambda: "speed is ready" in self.kubectl("logs", "speed-0", check=False))

    def published(self) -> int:
        """The number of the newest publication."""
        newest = json.loads(self.tandem("history", "--limit", "1", "--json"))["publications"][0]
        return int(newest["publication"])

    def _rolled_out(self, part: str) -> bool:
        said = self.kubectl("rollout", "status", part, "--watch=false", check=False)
        return "success" in said or "complete" in said

    def until(self, holds: Any) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, self.kubectl("get", "pods,events") + self.kubectl("logs", "speed-0", check=False)
            time.sleep(0.3)

    def feed(self, start: int, count: int) -> None:
        """Send this many orders, every tenth of them twice."""
        lines = [_order(number) for number in range(start, start + count)]
        self.tandem("feed", "-", "--source", "orders", stdin="\n".join([*lines, *lines[::10]]) + "\n")

    def ask(self) -> dict[str, Any]:
        """The rows of a view, over a new connection to the service."""
        address = self.kubectl("get", "service", "serve", "-o", "jsonpath={.spec.clusterIP}")
        trusted = ssl.create_default_context(cafile=str(self.folder / "tls.crt"))
        trusted.check_hostname = False
        request = urllib.request.Request(
            f"https://{address}/views/sales/rows?limit=10000", headers={"Authorization": f"Bearer {self.token}", "Host": "serve"}
        )
        handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted))
        with urllib.request.build_opener(*handlers).open(request, timeout=20) as answer:
            document: dict[str, Any] = json.load(answer)
            return document

    def expected(self, position: Mapping[str, Mapping[str, int]]) -> Counter[tuple[str, str]]:
        """Orders by city and hour of the records below a position, folded by hand."""
        (ends,) = position.values() if position else ({},)
        seen = set[str]()
        counted = Counter[tuple[str, str]]()
        for (partition, offset), value in sorted(self.at.items()):
            order = json.loads(value)
            if offset < ends.get(str(partition), 0) and order["order_id"] not in seen:
                seen.add(order["order_id"])
                counted[order["city"].upper(), order["at"][:13]] += 1
        return counted

    def read(self) -> None:
        consumer = Consumer({"bootstrap.servers": self.outside.bootstrap, "group.id": "none", "enable.auto.commit": False})
        try:
            for number in consumer.list_topics("orders", 30).topics["orders"].partitions:
                begin = sum(partition == number for partition, _ in self.at)
                _, end = consumer.get_watermark_offsets(TopicPartition("orders", number), 30)
                consumer.assign([TopicPartition("orders", number, begin)])
                while begin < end:
                    for record in consumer.consume(1000, 10):
                        assert record.error() is None
                        self.at[number, record.offset()] = record.value()
                        begin = record.offset() + 1
        finally:
            consumer.close()

    def right(self, document: Mapping[str, Any]) -> bool:
        """Whether an answer is the fold of the records below its position."""
        rows = {(row["city"], row["window_start"][:13]): int(row["orders"]) for row in document["rows"]}
        return rows == self.expected(document["provenance"]["realtime"])

    def whole(self) -> None:
        """Wait until the answer counts all records, and compare it."""
        self.read()
        wanted = sum(1 for _ in self.at)
        self.until(lambda: _count(self.ask()["provenance"]["realtime"]) == wanted)
        assert self.right(self.ask())


def _order(number: int) -> str:
    order = {
        "order_id": f"o{number}",
        "at": f"2026-11-01T{8 + number % 5:02}:{number % 60:02}:00Z",
        "customer": f"c{number % 40}",
        "city": ("Oslo", "Bergen", "Bodø")[number % 3],
        "channel": "web",
        "items": 1 + number % 4,
        "amount": f"{number % 90}.50",
    }
    return json.dumps(order, ensure_ascii=False)


def _count(position: Mapping[str, Mapping[str, int]]) -> int:
    return sum(sum(ends.values()) for ends in position.values())


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    if os.geteuid():
        pytest.skip("needs root")
    if missing := [*one_node.missing(), *([] if os.environ.get("TEST_IMAGE_ARCHIVE") else ["TEST_IMAGE_ARCHIVE"])]:
        pytest.skip(f"needs {', '.join(missing)}")
    with one_node.one_node(tmp_path_factory.mktemp("kubernetes")) as node:
        node.load(Path(os.environ["TEST_IMAGE_ARCHIVE"]), f"{_IMAGE}:1")
        yield node


@pytest.fixture(scope="module")
def shop(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop") / "deployed"
    subprocess.run([sys.executable, "-m", "tandem.cli", "init", str(folder)], check=True, capture_output=True, timeout=300)
    with servers(node.gateway, tmp_path_factory.mktemp("kafka") / "broker") as outside:
        shop = Shop(node, outside, folder)
        node.kubectl("create", "namespace", _SPACE)
        key, certificate = folder / "tls.key", folder / "tls.crt"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=serve"]
        subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
        shop.kubectl("create", "secret", "tls", "certificate", f"--cert={certificate}", f"--key={key}")
        shop.kubectl(
            "create",
            "secret",
            "generic",
            "credentials",
            "--from-literal=AWS_ACCESS_KEY_ID=x",
            "--from-literal=AWS_SECRET_ACCESS_KEY=y",
        )
        shop.apply()
        said = shop.kubectl("exec", "deployment/serve", "--", "tandem", "token", "create", "reader", "--may", "read", "--json")
        shop.token = json.loads(said)["secret"]
        yield shop


def test_answers_are_right_while_a_server_and_the_speed_layer_are_killed(shop: Shop) -> None:
    shop.feed(0, 500)
    answers: list[dict[str, Any]] = []
    refused, ended = [0], threading.Event()

    def ask() -> None:
        while not ended.is_set():
            try:
                answers.append(shop.ask())
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                refused[0] += 1

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        shop.feed(500, 500)
        shop.tandem("recompute", "--archive")
        first = shop.kubectl("get", "pods", "-l", "app.kubernetes.io/component=serve", "-o", "name").split()[0]
        shop.kill(first)
        shop.feed(1000, 500)
        shop.kill("pod/speed-0")
        shop.wait_for_speed()
        shop.feed(1500, 500)
        shop.whole()
    finally:
        ended.set()
        asking.join()
    assert len({json.dumps(answer["provenance"]["realtime"]) for answer in answers}) > 1
    assert not [answer for answer in answers if not shop.right(answer)]
    sys.stdout.write(f"{len(answers)} answers; {refused[0]} questions without one\n")


def test_executors_are_pods_and_one_is_killed(shop: Shop) -> None:
    shop.apply(_EXECUTORS, ("executors",))
    shop.feed(2000, 500)
    shop.whole()
    executors = "spark-role=executor"
    assert shop.kubectl("get", "pods", "-l", executors, "-o", "name").split()
    run = threading.Thread(target=lambda: shop.tandem("recompute", "--archive", "--mode", "full"))
    run.start()
    try:
        shop.until(lambda: "tandem-recompute" in shop.kubectl("get", "pods", "-l", executors, "-o", "name"))
        named = [pod for pod in shop.kubectl("get", "pods", "-l", executors, "-o", "name").split() if "recompute" in pod]
        shop.kill(named[0])
    finally:
        run.join()
    assert shop.published() > 1
    shop.whole()
    shop.kill("pod/speed-0")
    shop.wait_for_speed()
    shop.feed(2500, 100)
    shop.whole()
    # Executors belong to their driver's pod, so that Kubernetes deletes those of a killed driver.
    shop.until(lambda: "Error" not in shop.kubectl("get", "pods", "-l", executors))


def test_airflow_runs_each_task_in_a_pod(shop: Shop, tmp_path: Path) -> None:
    airflow = os.environ.get("TEST_AIRFLOW")
    if not airflow:
        pytest.skip("needs TEST_AIRFLOW")
    shop.apply()
    shop.feed(3000, 200)
    template = (ROOT / "container" / "kubernetes" / "task-pod.yaml").read_text("utf-8")
    pod = tmp_path / "task-pod.yaml"
    pod.write_text(template.replace("localhost/tandem:latest", f"{_IMAGE}:1").replace('cpu: "1"', "cpu: 10m"), "utf-8")
    (tmp_path / "tandem.json").write_text(json.dumps({"project": "/project", "name": "shop", "pod": str(pod), "retries": 0}))
    extra = {
        "kube_config_path": str(shop.node.config),
        "namespace": _SPACE,
        "in_cluster": False,
        "xcom_sidecar_container_image": f"{_IMAGE}:1",
    }
    variables = {
        "PATH": os.environ["PATH"],
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "PYTHONPATH": str(ROOT / "dags"),
        "TANDEM_AIRFLOW": str(tmp_path / "tandem.json"),
        "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps({"conn_type": "kubernetes", "extra": extra}),
    }
    before = shop.published()
    for words in (["db", "migrate"], ["dags", "test", "recompute"]):
        done = subprocess.run([airflow, *words], env=variables, capture_output=True, text=True, check=False, timeout=900)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert shop.published() == before + 1
    shop.whole()
    assert "task" not in shop.kubectl("get", "pods", "-o", "name")
