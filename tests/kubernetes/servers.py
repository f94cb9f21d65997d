"""The servers outside the cluster, at the address of this machine that pods reach: a Kafka broker and an object store."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tandem.cli.demo import s3_server
from tandem.infra import kafka
from tandem.infra.process.ports import unused
from tandem.infra.settings import KafkaSettings, Settings
from tests.infra.kafka.kraft_node import begin_node, new_cluster

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=CLIENTS://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=CLIENTS://{host}:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=CLIENTS
listener.security.protocol.map=CONTROLLER:PLAINTEXT,CLIENTS:PLAINTEXT
log.dirs={data}
log.retention.ms=-1
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
"""


@dataclass(frozen=True)
class Servers:
    """The address of the broker, and those of the tables with the options of their store."""

    bootstrap: str
    root: str
    options: Mapping[str, str]

    def toml(self) -> str:
        """The settings of a project that uses them."""
        options = "\n".join(f'{name} = "{value}"' for name, value in self.options.items())
        return f'[kafka]\nbootstrap = "{self.bootstrap}"\n\n[storage]\nroot = "{self.root}"\n\n[storage.options]\n{options}\n'


@contextmanager
def servers(host: str, folder: Path) -> Iterator[Servers]:
    """Both servers at that address, until the context ends."""
    with ExitStack() as stack:
        root, options = stack.enter_context(s3_server.bucket(host=host))
        yield Servers(stack.enter_context(_broker(host, folder)), root, options)


@contextmanager
def _broker(host: str, folder: Path) -> Iterator[str]:
    port = unused()
    configuration = _PROPERTIES.format(host=host, port=port, controller=unused(), data=folder / "data")
    process = begin_node(folder, configuration, cluster=new_cluster(), java=["-Xmx384m"])
    try:
        _wait(f"{host}:{port}")
        yield f"{host}:{port}"
    finally:
        process.terminate()
        process.wait()


def _wait(bootstrap: str) -> None:
    outside = kafka.outside(Settings(kafka=KafkaSettings(bootstrap=bootstrap)))
    deadline = time.monotonic() + 300
    while True:
        try:
            kafka.describe(kafka.connect(outside), ["tandem-is-it-ready"])
        except kafka.NoBroker:
            assert time.monotonic() < deadline, "the broker does not answer"
        else:
            return
