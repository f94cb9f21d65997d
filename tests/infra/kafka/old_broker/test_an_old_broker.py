"""A real broker of Kafka 2.6, whose topics have no ids, is refused in one sentence before any record moves."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tandem.infra import folders, kafka
from tandem.infra.java import jar_fetch, jars, java_home
from tandem.infra.process import pdeathsig
from tandem.infra.process.ports import unused
from tests.stack import environ

pytestmark = [pytest.mark.broker, pytest.mark.slow]

LISTS = Path(__file__).parent
ZOOKEEPER = "dataDir={home}/zookeeper\nclientPort={zookeeper}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
BROKER = "broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:{port}\nzookeeper.connect=127.0.0.1:{zookeeper}\nlog.dirs={home}/log\n"


def classpath() -> str:
    """The old broker's jars of Kafka, with the libraries of the embedded broker."""
    environment = environ()
    installed, folder = java_home.find(environment), jars.folder(environment) / "tests"
    store = folder / "cacerts" if installed.home == java_home.packaged_home(environment) else None
    try:
        jar_fetch.fetch(
            folder, folders.cache(environment), java=installed.command, trust_store=store, environ=environment, lists=LISTS
        )
    except jar_fetch.FetchFailed as error:
        pytest.skip(str(error))
    others = [path for path in jars.paths("broker", environ=environment) if not path.name.startswith("kafka")]
    return ":".join(map(str, [*(folder / path for path in jar_fetch.pinned(LISTS)), *others]))


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    classes, ports = classpath(), {"port": unused(), "zookeeper": unused()}
    run = pdeathsig.command([java_home.find(environ()).command, "-Xmx256m"])
    mains = {"org.apache.zookeeper.server.quorum.QuorumPeerMain": ZOOKEEPER, "kafka.Kafka": BROKER}
    with ExitStack() as ended, (tmp_path / "log.txt").open("wb") as log:
        for name, text in mains.items():
            properties = tmp_path / f"{name}.properties"
            properties.write_text(text.format(home=tmp_path, **ports))
            process = subprocess.Popen([*run, "-cp", classes, name, str(properties)], stdout=log, stderr=log)
            ended.callback(process.wait)
            ended.callback(process.kill)
        yield f"127.0.0.1:{ports['port']}"


def test_a_broker_that_is_too_old_is_one_sentence(bootstrap: str) -> None:
    deadline = time.monotonic() + 300
    while True:
        with pytest.raises(kafka.NoBroker) as refused:
            kafka.connect(kafka.Address(bootstrap, {}, 10))
        if isinstance(refused.value, kafka.BrokerTooOld):
            break
        assert time.monotonic() < deadline, refused.value
        time.sleep(0.1)
    assert refused.value.code == "broker-too-old"
    assert str(refused.value) == (
        f"the broker of Kafka at {bootstrap} is too old: it answers as version 2.6; Tandem needs Kafka 2.8 or later"
    )
