"""The embedded Kafka broker: one process of a project, in KRaft mode, on loopback, its data in the state folder.

Only programs that can read the project's state folder can log in to it (`infra/kafka/broker_login.py`).

It keeps its port over restarts, so that programs with its address find it again. It has no launcher process: it ends when the
process with its pid ends.
"""

import secrets
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from tandem.infra import kafka
from tandem.infra.files import private_files
from tandem.infra.files.property_text import escape
from tandem.infra.java import jars, java_home
from tandem.infra.kafka import broker_login
from tandem.infra.logs import log4j
from tandem.infra.logs.files import bounds, log_of
from tandem.infra.process import background
from tandem.infra.process.background import BackgroundProcess, Process
from tandem.infra.process.ports import HOST, free, unused
from tandem.infra.settings import Settings
from tandem.views.errors import TandemError

NAME = "broker"
READY_S: Final = 180
# Every client logs in by SCRAM, which needs a record in the broker's metadata. KRaft's controller supports only PLAIN: so a user
# `setup`, with another password at each start, logs in to the controller and creates that record.
# Topics without their own retention have none, and Kafka's internal topics have one partition, because this is one node. A
# record's timestamp is the time at which it was sent, unless its producer sets another.
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=CLIENTS://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=CLIENTS://{host}:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=CLIENTS
listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,CLIENTS:SASL_PLAINTEXT
sasl.mechanism.inter.broker.protocol={mechanism}
sasl.mechanism.controller.protocol=PLAIN
listener.name.clients.sasl.enabled.mechanisms={mechanism},PLAIN
listener.name.clients.{scram}.sasl.jaas.config={own}
listener.name.clients.plain.sasl.jaas.config={setup}
listener.name.controller.sasl.enabled.mechanisms=PLAIN
listener.name.controller.plain.sasl.jaas.config={setup}
log.dirs={data}
num.partitions={partitions}
log.retention.ms=-1
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
logger.server.name = kafka.server.KafkaRaftServer
logger.server.level = info
"""


class BrokerPortTaken(TandemError, code="broker-port-taken"):
    """Another program listens on the broker's port."""


class _Ports(msgspec.Struct, frozen=True):
    port: int
    controller: int


def address(settings: Settings) -> kafka.Address:
    """The address of the project's broker, outside or embedded; raises NoBroker if the embedded one does not run."""
    if settings.kafka.bootstrap:
        return kafka.outside(settings)
    ports = _remembered(settings)
    if not ports.port or background.running(settings.folder, NAME) is None:
        raise kafka.NoBroker(f"the broker of {settings.folder} is not running; start it with `tandem up`")
    return broker_login.address(settings, _bootstrap(ports))


def start(settings: Settings, *, environ: Mapping[str, str]) -> Process:
    """Start the embedded broker unless it runs, and return when it answers; the caller holds `background.starting`.

    Raises BrokerPortTaken, Crashed with the last lines of its log, NoJava or MissingJar.
    """
    if process := background.running(settings.folder, NAME):
        return process
    child, setup = begin(settings, environ=environ)
    try:
        background.wait(child, lambda: answers(settings, setup=setup) or None, seconds=READY_S)
    except background.Crashed as crash:
        background.stop(settings.folder, child.process, seconds=5)
        if any("in use" in line for line in child.last_lines()):
            raise BrokerPortTaken(_taken(_remembered(settings).port, settings)) from None
        raise crash from None
    return child.process


def begin(settings: Settings, *, environ: Mapping[str, str], dies_with_us: bool = False) -> tuple[BackgroundProcess, str]:
    """Start the embedded broker, which does not run, and return at once; `dies_with_us` as in `background.spawn`.

    Also returns the password of the user `setup`, which `answers` needs until the broker has answered once.
    Raises BrokerPortTaken, Crashed if its data folder cannot be prepared, NoJava or MissingJar.
    """
    private_files.folder(settings.folder)
    home = private_files.folder(broker_login.home(settings))
    data = home / "data"
    ports, setup = _choose_ports(settings), secrets.token_urlsafe(32)
    properties = _configure(settings, home, data, ports, setup)
    kept = bounds(settings.logs)
    (home / "log4j2.properties").write_text(_LOG4J + log4j.rolling(log_of(settings.folder, NAME), kept), "utf-8")
    run = _java(settings, java_home.find(environ), home, environ)
    if not (data / "meta.properties").exists():
        _format(run, properties)
    (home / "ports.json").write_bytes(msgspec.json.encode(ports))
    command = [*run, "kafka.Kafka", str(properties)]
    child = background.spawn(
        settings.folder, NAME, command, environ=environ, folder=home, bounds=kept, logs_itself=True, dies_with_us=dies_with_us
    )
    return child, setup


def answers(settings: Settings, *, setup: str = "") -> bool:
    """Whether the broker that was started last answers and accepts the project's login.

    With `setup`, the password that `begin` returned, the login is recorded first; pass it until the broker has answered once.
    Without it, a broker that refuses the login raises BrokerRefused.
    """
    bootstrap = _bootstrap(_remembered(settings))
    try:
        if setup and not broker_login.record(settings, bootstrap, setup=setup):
            return False
        connection = kafka.connect(broker_login.address(settings, bootstrap))
        kafka.describe(connection, ["tandem-is-it-ready"])
    except kafka.NoBroker as error:
        if isinstance(error, kafka.BrokerRefused) and not setup:
            raise
        return False
    return True


def _configure(settings: Settings, home: Path, data: Path, ports: _Ports, setup: str) -> Path:
    """Write the broker's configuration; `setup` is the password of the user `setup`."""
    user, mechanism = broker_login.SETUP, broker_login.MECHANISM
    password = broker_login.provide(settings, _bootstrap(ports))
    told = _PROPERTIES.format(
        host=HOST,
        port=ports.port,
        controller=ports.controller,
        mechanism=mechanism,
        scram=mechanism.lower(),
        own=broker_login.configured(password),
        setup=f'{kafka.jaas("PLAIN", user, setup)[:-1]} user_{user}="{setup}";',
        data=escape(str(data)),
        partitions=settings.kafka.partitions,
    )
    path = home / "server.properties"
    private_files.write(path, told)
    return path


def _bootstrap(ports: _Ports) -> str:
    return f"{HOST}:{ports.port}"


def refuse_taken_port(settings: Settings) -> None:
    """Raise BrokerPortTaken if the configured port is in use. Only for a broker that does not run."""
    configured = settings.kafka.port
    if configured and not free(configured):
        raise BrokerPortTaken(_taken(configured, settings))


def _choose_ports(settings: Settings) -> _Ports:
    """The configured port, which must be free; else the port of the last start, if it is free; else a free one."""
    refuse_taken_port(settings)
    configured, remembered = settings.kafka.port, _remembered(settings)
    port = configured or (remembered.port if remembered.port and free(remembered.port) else 0)
    controller = remembered.controller if remembered.controller and free(remembered.controller) else 0
    return _Ports(port or unused(), controller or unused())


def _remembered(settings: Settings) -> _Ports:
    """The ports of the last start; 0 if there was none."""
    try:
        return msgspec.json.decode((settings.folder / NAME / "ports.json").read_bytes(), type=_Ports)
    except (FileNotFoundError, msgspec.DecodeError):
        return _Ports(0, 0)


def _java(settings: Settings, found: java_home.JavaInstallation, home: Path, environ: Mapping[str, str]) -> list[str]:
    classpath = ":".join(map(str, jars.paths("broker", environ=environ)))
    return [
        found.command,
        f"-Xmx{settings.kafka.memory}",
        "-XX:-UsePerfData",
        f"-Dlog4j2.configurationFile={(home / 'log4j2.properties').absolute().as_uri()}",
        "-cp",
        classpath,
    ]


def _format(run: list[str], properties: Path) -> None:
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
    command = [*run, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", f"--config={properties}"]
    done = subprocess.run(  # noqa: S603 - our own command
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise background.Crashed(f"cannot prepare the broker's data folder: {lines[-1] if lines else 'no message'}")


def _taken(port: int, settings: Settings) -> str:
    where = "kafka.port" if settings.kafka.port else "the broker's port"
    return f"another program uses port {port} on {HOST} ({where}); stop it, or set kafka.port to another port or to 0"
