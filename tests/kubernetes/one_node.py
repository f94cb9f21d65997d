"""A real Kubernetes of one node on this machine: etcd, API server, scheduler, controllers, kubelet, containerd.

Needs root, Debian's `etcd-server containerd runc containernetworking-plugins iptables`, and Kubernetes' own programs on the
PATH. Pods have addresses of a bridge of this machine; the API server listens on that bridge and on loopback. Cluster addresses of
services need `kube-proxy`.

The programs end with the process that started them, however it ends. Containers outlive containerd, so the next cluster removes
those that a killed one left.
"""

import fcntl
import hashlib
import io
import json
import os
import secrets
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tandem.infra.process import pdeathsig
from tandem.infra.process.ports import unused

PROGRAMS: Final = (
    *("etcd", "containerd", "ctr", "runc", "iptables", "openssl", "gcc"),
    *("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"),
)
_PLUGINS: Final = Path("/usr/lib/cni")
_PODS, _GATEWAY, _SERVICES = "10.244.0.0/24", "10.244.0.1", "10.96.0.0/24"
_BRIDGE: Final = "tandemtest0"
_START_S: Final = 180
_RECORD: Final = Path("/run/tandem-test-node")
"""The folder of the machine's last cluster; a cluster that runs has it locked."""
_PAUSE: Final = "localhost/pause:1"
# The program that keeps each pod's network: it waits, and reaps children.
_PAUSE_C: Final = """\
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int number) { (void)number; exit(0); }
static void reap(int number) { (void)number; while (waitpid(-1, 0, WNOHANG) > 0); }
int main(void) { signal(SIGTERM, end); signal(SIGINT, end); signal(SIGCHLD, reap); for (;;) pause(); }
"""


def missing() -> list[str]:
    """The programs that this machine lacks."""
    return [name for name in PROGRAMS if not shutil.which(name)]


@dataclass(frozen=True)
class Node:
    """A running cluster; `folder` has its configuration, `gateway` is this machine's address as pods reach it."""

    folder: Path
    port: int
    gateway: str = _GATEWAY

    @property
    def api(self) -> str:
        """The address of the API server."""
        return f"https://{self.gateway}:{self.port}"

    @property
    def config(self) -> Path:
        """The kubeconfig of an administrator."""
        return self.folder / "admin.conf"

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True, seconds: float = 120) -> str:
        """Run kubectl and return what it prints."""
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(self.config), *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert not check or done.returncode == 0, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def get(self, *words: str) -> Any:
        """The document of `kubectl get`."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def load(self, archive: Path, name: str) -> None:
        """Make the one image of an archive known to the node, by that name."""
        run = ["ctr", "-a", str(self.folder / "containerd.sock"), "-n", "k8s.io", "images"]
        done = subprocess.run([*run, "import", str(archive)], check=True, capture_output=True, text=True, timeout=600)
        (loaded,) = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("unpacking")}
        if loaded != name:
            subprocess.run([*run, "tag", "--force", loaded, name], check=True, capture_output=True)


@contextmanager
def one_node(folder: Path) -> Iterator[Node]:
    """A cluster of this machine until the context ends."""
    node = Node(folder, unused())
    with ExitStack() as stack:
        stack.enter_context(_recorded(folder))
        parts = _Parts(folder, stack)
        _configure(node)
        client, peer = unused(), unused()
        parts.start(
            *("etcd", "--data-dir", str(folder / "etcd"), "--unsafe-no-fsync"),
            *(f"--listen-client-urls=http://127.0.0.1:{client}", f"--advertise-client-urls=http://127.0.0.1:{client}"),
            *(f"--listen-peer-urls=http://127.0.0.1:{peer}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
        )
        parts.start("containerd", "-c", str(folder / "containerd.toml"))
        parts.start(
            *("kube-apiserver", f"--etcd-servers=http://127.0.0.1:{client}", f"--secure-port={node.port}"),
            *(f"--bind-address={node.gateway}", f"--advertise-address={node.gateway}", f"--cert-dir={folder / 'pki'}"),
            *(f"--service-cluster-ip-range={_SERVICES}", "--authorization-mode=Node,RBAC"),
            "--kubelet-preferred-address-types=InternalIP",
            *(f"--token-auth-file={folder / 'tokens.csv'}", "--service-account-issuer=https://tandem.test"),
            *(
                f"--service-account-key-file={folder / 'accounts.key'}",
                f"--service-account-signing-key-file={folder / 'accounts.key'}",
            ),
            *(
                f"--kubelet-client-certificate={folder / 'kubelet-client.crt'}",
                f"--kubelet-client-key={folder / 'kubelet-client.key'}",
            ),
        )
        _wait("the API server", lambda: node.kubectl("get", "--raw", "/readyz", check=False) == "ok", parts)
        node.load(_pause(folder), _PAUSE)
        parts.start(
            *(
                "kube-controller-manager",
                f"--kubeconfig={node.config}",
                "--use-service-account-credentials",
                "--leader-elect=false",
            ),
            *(
                f"--service-account-private-key-file={folder / 'accounts.key'}",
                f"--root-ca-file={folder / 'pki' / 'apiserver.crt'}",
            ),
            *("--secure-port=0", "--bind-address=127.0.0.1"),
        )
        parts.start("kube-scheduler", f"--kubeconfig={node.config}", "--leader-elect=false", "--secure-port=0")
        parts.start(
            *(
                "kubelet",
                f"--kubeconfig={node.config}",
                f"--config={folder / 'kubelet.json'}",
                f"--root-dir={folder / 'kubelet'}",
            ),
            *("--hostname-override=one", f"--node-ip={node.gateway}"),
        )
        parts.start("kube-proxy", f"--config={folder / 'proxy.json'}", "--hostname-override=one")
        _wait("the node", lambda: _ready(node), parts)
        _wait("the account of pods", lambda: bool(node.kubectl("get", "serviceaccount", "default", check=False)), parts)
        stack.callback(_empty, node)
        yield node


def _pause(folder: Path) -> Path:
    """The archive of an image with one static program."""
    source, program = folder / "pause.c", folder / "pause"
    source.write_text(_PAUSE_C, "utf-8")
    subprocess.run(["gcc", "-static", "-Os", "-o", str(program), str(source)], check=True)
    layer = _tar({"pause": program.read_bytes()}, mode=0o755)
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/pause"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [_PAUSE], "Layers": ["layer.tar"]}]
    archive = folder / "pause.tar"
    archive.write_bytes(_tar({"config.json": config, "layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}))
    return archive


def _tar(files: Mapping[str, bytes], mode: int = 0o644) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def _configure(node: Node) -> None:
    folder = node.folder
    folder.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(16)
    _write(folder / "tokens.csv", f"{token},admin,admin,system:masters\n")
    _openssl("genrsa", "-out", str(folder / "accounts.key"), "2048")
    _openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/O=system:masters/CN=api"),
        *("-keyout", str(folder / "kubelet-client.key"), "-out", str(folder / "kubelet-client.crt")),
    )
    _bridge()
    _document(
        node.config,
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "one", "cluster": {"server": node.api, "certificate-authority": str(folder / "pki" / "apiserver.crt")}}
            ],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "one", "context": {"cluster": "one", "user": "admin"}}],
            "current-context": "one",
        },
    )
    _document(
        folder / "cni" / "10-tandem.conflist",
        {
            "cniVersion": "0.4.0",
            "name": "tandem",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": _BRIDGE,
                    "isGateway": True,
                    "ipMasq": True,
                    "hairpinMode": True,
                    "ipam": {"type": "host-local", "subnet": _PODS, "gateway": node.gateway, "routes": [{"dst": "0.0.0.0/0"}]},
                },
                {"type": "portmap", "capabilities": {"portMappings": True}},
            ],
        },
    )
    _write(
        folder / "containerd.toml",
        f"""version = 2
root = "{folder / "containerd"}"
state = "{folder / "containerd-state"}"
[grpc]
  address = "{folder / "containerd.sock"}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{_PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{_PLUGINS}"
    conf_dir = "{folder / "cni"}"
""",
    )
    _document(
        folder / "kubelet.json",
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": node.gateway,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(folder / "kubelet-client.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "containerRuntimeEndpoint": f"unix://{folder / 'containerd.sock'}",
            "failSwapOn": False,
            "healthzPort": 0,
            "port": unused(),
            "podCIDR": _PODS,
            "resolvConf": "",
            "serverTLSBootstrap": False,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "registerNode": True,
        },
    )
    _document(
        folder / "proxy.json",
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(node.config)},
            "clusterCIDR": _PODS,
            "mode": "iptables",
            "healthzBindAddress": f"127.0.0.1:{unused()}",
            "metricsBindAddress": f"127.0.0.1:{unused()}",
            "conntrack": {"maxPerCore": 0},
        },
    )


def _bridge() -> None:
    """The bridge exists before the first pod, because the API server listens on it."""
    subprocess.run(["ip", "link", "add", _BRIDGE, "type", "bridge"], check=False, capture_output=True)
    subprocess.run(["ip", "address", "replace", f"{_GATEWAY}/24", "dev", _BRIDGE], check=True)
    subprocess.run(["ip", "link", "set", _BRIDGE, "up"], check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1", "utf-8")


def _empty(node: Node) -> None:
    """End all pods while the kubelet still runs."""
    node.kubectl("delete", "namespaces", "--all", "--wait=false", check=False)
    node.kubectl("delete", "pods", "--all", "--all-namespaces", "--grace-period=1", "--timeout=60s", check=False)


@contextmanager
def _recorded(folder: Path) -> Iterator[None]:
    """The only cluster of this machine, after what an earlier one left has been removed; at the end the same for this one."""
    with _RECORD.open("a+", encoding="utf-8") as record:
        fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
        record.seek(0)
        if earlier := record.read():
            remove_left(Path(earlier))
        record.truncate(0)
        record.write(str(folder))
        record.flush()
        try:
            yield
        finally:
            remove_left(folder)
            record.truncate(0)


def remove_left(folder: Path) -> None:
    """Kill the containers that the containerd of a folder recorded there, and remove mounts and the bridge.

    Containerd must have ended: it would change what it recorded.
    """
    networks = set[str]()
    for bundle in (folder / "containerd-state" / "io.containerd.runtime.v2.task" / "k8s.io").glob("*"):
        for process in _processes_of(bundle, folder / "containerd.sock"):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with suppress(OSError, ValueError):
            namespaces = json.loads((bundle / "config.json").read_bytes())["linux"]["namespaces"]
            networks |= {
                each["path"] for each in namespaces if each["type"] == "network" and "/netns/cni-" in each.get("path", "")
            }
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
    for place in reversed(mounts):
        if place.startswith(f"{folder}/") or place in networks:
            subprocess.run(["umount", "-l", place], check=False, capture_output=True)
    for network in networks:
        Path(network).unlink(missing_ok=True)
    subprocess.run(["ip", "link", "del", _BRIDGE], check=False, capture_output=True)


def _processes_of(bundle: Path, socket: Path) -> Iterator[int]:
    """The first process of a container, unless its number has another owner by now, and the container's shim."""
    with suppress(OSError, ValueError):
        first = int((bundle / "init.pid").read_text("utf-8"))
        if bundle.name in Path(f"/proc/{first}/cgroup").read_text("utf-8"):
            yield first
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_text("utf-8", "replace").split("\0")
            if words[0].endswith("/containerd-shim-runc-v2") and {bundle.name, str(socket)} <= {*words}:
                yield int(process.name)


@dataclass
class _Parts:
    folder: Path
    stack: ExitStack

    def start(self, *words: str) -> None:
        log = self.stack.enter_context((self.folder / f"{words[0]}.log").open("wb"))
        command = pdeathsig.command(words)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self.stack.callback(_stop, process)

    def said(self) -> str:
        return "\n".join(
            f"{log.name}: {line}"
            for log in sorted(self.folder.glob("*.log"))
            for line in log.read_text("utf-8", "replace").splitlines()[-3:]
        )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(what: str, holds: Callable[[], bool], parts: _Parts) -> None:
    deadline = time.monotonic() + _START_S
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not start: {parts.said()}"
        time.sleep(0.2)


def _ready(node: Node) -> bool:
    listed = node.kubectl("get", "nodes", "-o", "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}", check=False)
    return listed == "True"


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def _document(file: Path, document: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    _write(file, json.dumps(document))


def _write(file: Path, text: str) -> None:
    file.touch(0o600)
    file.write_text(text, "utf-8")
