"""Brokers of a test's own: KRaft nodes that are controller and broker at once, over TLS, which deny what no ACL allows.

Each has three listeners for clients: by a password (SCRAM), by a certificate (mTLS), by a token (OAUTHBEARER).
"""

import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
from kafka.admin import ACLResourcePatternType as Form

from tandem.infra import kafka
from tandem.infra.process.ports import unused
from tandem.infra.settings import KafkaSettings, Settings
from tests.infra.kafka.kraft_node import begin_node, new_cluster
from tests.infra.kafka.secured.authority import Authority, SignedKey
from tests.infra.kafka.secured.token_issuer import AUDIENCE, ISSUER

_PROPERTIES: Final = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=BETWEEN://127.0.0.1:{between},CONTROLLER://127.0.0.1:{controller},PASSWORD://127.0.0.1:{password},KEY://127.0.0.1:{key},\
TOKEN://127.0.0.1:{token}
advertised.listeners=BETWEEN://127.0.0.1:{between},PASSWORD://127.0.0.1:{password},KEY://127.0.0.1:{key},TOKEN://127.0.0.1:{token}
controller.listener.names=CONTROLLER
inter.broker.listener.name=BETWEEN
listener.security.protocol.map=CONTROLLER:SSL,BETWEEN:SSL,PASSWORD:SASL_SSL,KEY:SSL,TOKEN:SASL_SSL
ssl.keystore.type=PEM
ssl.keystore.location={certificate}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
listener.name.between.ssl.client.auth=required
listener.name.controller.ssl.client.auth=required
listener.name.key.ssl.client.auth=required
listener.name.password.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.password.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.token.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.token.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
listener.name.token.oauthbearer.sasl.server.callback.handler.class=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler
listener.name.token.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={jwks}
listener.name.token.oauthbearer.sasl.oauthbearer.expected.audience={audience}
listener.name.token.oauthbearer.sasl.oauthbearer.expected.issuer={issuer}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=false
super.users=User:CN=broker
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor={copies}
offsets.topic.num.partitions=1
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr={least}
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor={copies}
share.coordinator.state.topic.min.isr={least}
group.initial.rebalance.delay.ms=0
replica.lag.time.max.ms=4000
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=500
controller.quorum.election.timeout.ms=500
controller.quorum.fetch.timeout.ms=1000
"""
_LISTENERS: Final = ("between", "controller", "password", "key", "token")
_JAVA: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
READY_S: Final = 90


@dataclass
class Brokers:
    """The nodes, numbered from 1; `begin` starts one. `keys` is a file with the keys that verify tokens."""

    folder: Path
    count: int = 1
    timeout_s: int = 60
    running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @cached_property
    def authority(self) -> Authority:
        """The signer of the certificates of brokers and clients."""
        authority = Authority(self.folder / "certificates")
        assert authority.file
        return authority

    @cached_property
    def certificate(self) -> SignedKey:
        """The brokers' own certificate; a client with it may do everything."""
        return self.authority.sign("broker")

    @cached_property
    def keys(self) -> Path:
        """The file of the JWK set."""
        return self.folder / "jwks.json"

    @cached_property
    def _ports(self) -> dict[int, dict[str, int]]:
        return {node: {name: unused() for name in _LISTENERS} for node in range(1, self.count + 1)}

    @cached_property
    def _id(self) -> str:
        return new_cluster()

    def bootstrap(self, listener: str) -> str:
        """The addresses of all nodes for clients of a listener."""
        return ",".join(f"127.0.0.1:{ports[listener]}" for ports in self._ports.values())

    def begin(self, node: int) -> None:
        """Start a node, and return at once."""
        if not self.keys.exists():
            self.keys.parent.mkdir(parents=True, exist_ok=True)
            self.keys.write_text('{"keys": []}')
        home, tokens = self.folder / f"node-{node}", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.keys.as_uri()}"
        configuration = self._configuration(node, home)
        self.running[node] = begin_node(home, configuration, cluster=self._id, java=[*_JAVA, tokens])

    def _configuration(self, node: int, home: Path) -> str:
        voters = ",".join(f"{number}@127.0.0.1:{ports['controller']}" for number, ports in self._ports.items())
        return _PROPERTIES.format(
            node=node,
            voters=voters,
            certificate=self.certificate.both,
            authority=self.authority.file,
            jwks=self.keys.as_uri(),
            audience=AUDIENCE,
            issuer=ISSUER,
            data=home / "data",
            copies=self.count,
            least=max(1, self.count - 1),
            **self._ports[node],
        )

    def kill(self, node: int) -> None:
        """End a node at once, as if its machine lost power."""
        self.running[node].kill()
        self.running.pop(node).wait()

    def end(self, node: int) -> None:
        """End a node in order: it hands its partitions over first."""
        self.running[node].terminate()
        self.running.pop(node).wait(60)

    def freeze(self, node: int) -> None:
        """Freeze a node."""
        self.running[node].send_signal(signal.SIGSTOP)

    def unfreeze(self, node: int) -> None:
        """Let a frozen node continue."""
        self.running[node].send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End all nodes."""
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    @cached_property
    def operator(self) -> KafkaSettings:
        """The settings of a client that may do everything."""
        return self.by_key(self.certificate)

    def by_password(self, username: str, password: str) -> KafkaSettings:
        """The settings of a client with a password."""
        return KafkaSettings(
            bootstrap=self.bootstrap("password"),
            security="sasl_ssl",
            mechanism="SCRAM-SHA-512",
            username=username,
            password=password,
            ca_file=str(self.authority.file),
            timeout_s=self.timeout_s,
        )

    def by_key(self, key: SignedKey, *, password: str = "") -> KafkaSettings:
        """The settings of a client with a certificate."""
        return KafkaSettings(
            bootstrap=self.bootstrap("key"),
            security="ssl",
            ca_file=str(self.authority.file),
            certificate_file=str(key.certificate),
            key_file=str(key.key),
            key_password=password,
            timeout_s=self.timeout_s,
        )

    def by_token(self, url: str, client: str, secret: str) -> KafkaSettings:
        """The settings of a client with tokens."""
        return KafkaSettings(
            bootstrap=self.bootstrap("token"),
            security="sasl_ssl",
            mechanism="OAUTHBEARER",
            username=client,
            password=secret,
            login_url=url,
            login_ca_file=str(self.authority.file),
            ca_file=str(self.authority.file),
            timeout_s=self.timeout_s,
        )

    def ready(self) -> kafka.BrokerConnection:
        """A connection that may do everything, once all the nodes that run have joined."""
        deadline = time.monotonic() + READY_S
        while True:
            try:
                connection = connection_of(self.operator)
                if len(connection.admin.describe_cluster()["brokers"]) >= len(self.running):
                    return connection
            except kafka.NoBroker:
                if time.monotonic() > deadline:
                    raise
            assert time.monotonic() < deadline
            for node, process in self.running.items():
                assert process.poll() is None, (self.folder / f"node-{node}" / "log").read_text()[-2000:]
            time.sleep(0.1)


def connection_of(settings: KafkaSettings) -> kafka.BrokerConnection:
    """A connection with these settings."""
    return kafka.connect(kafka.outside(Settings(kafka=settings)))


@contextmanager
def run_brokers(brokers: Brokers) -> Iterator[tuple[Brokers, kafka.BrokerConnection]]:
    """The brokers while they run, and a connection that may do everything."""
    try:
        for node in range(1, brokers.count + 1):
            brokers.begin(node)
        yield brokers, brokers.ready()
    finally:
        brokers.close()


@dataclass(frozen=True)
class Right:
    """The content of an ACL: operations on a resource, whose name ends in * if it is a prefix of names."""

    resource: str
    name: str
    operations: Sequence[str]


def allow(connection: kafka.BrokerConnection, principal: str, rights: Sequence[Right]) -> None:
    """Grant a principal these rights, from any host."""
    acls = [
        ACL(
            principal,
            "*",
            ACLOperation[operation],
            ACLPermissionType.ALLOW,
            ResourcePattern(
                ResourceType[right.resource],
                right.name.rstrip("*") or "*",
                Form.PREFIXED if right.name.endswith("*") and right.name != "*" else Form.LITERAL,
            ),
        )
        for right in rights
        for operation in right.operations
    ]
    answer = connection.admin.create_acls(acls)
    assert not answer["failed"], answer
