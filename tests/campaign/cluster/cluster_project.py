"""The campaign's project at brokers of its own over TLS, with a user who has only the rights that docs/kafka.md lists."""

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from kafka.errors import KafkaError

from tandem.infra import folders, kafka
from tandem.infra.process.ports import unused
from tandem.infra.settings import KafkaSettings, Settings
from tests.campaign import project
from tests.campaign.answers.comparer import Comparer
from tests.campaign.answers.log import Log
from tests.campaign.commands import Tandem, wait_until
from tests.campaign.feeder import Feeder
from tests.campaign.messages import Ended
from tests.campaign.server import Server
from tests.campaign.steps import Steps
from tests.campaign.tally import Tally
from tests.infra.kafka.secured.brokers import Brokers, allow, run_brokers
from tests.infra.kafka.secured.rights import documented_rights
from tests.stack import environ

USER: Final = "tandem"
PASSWORD: Final = "a password that no log has"
PATIENCE_S: Final = 180.0
_SECRETS: Final = ("password", "key_password")


class ClusterProject:
    """The project with its feeder and comparer, and an administrator's connection to its brokers."""

    def __init__(self, folder: Path, brokers: Brokers, operator: kafka.BrokerConnection, login: KafkaSettings, port: int) -> None:
        self.brokers, self.operator, self.state = brokers, operator, folder / "state"
        public = {name: value for name, value in msgspec.structs.asdict(login).items() if value and name not in _SECRETS}
        self.state.mkdir(mode=0o700)
        project.write(
            folder / "project",
            state=self.state,
            port=port,
            kafka="\n".join(f"{name} = {json.dumps(value)}" for name, value in public.items()),
        )
        secrets = {f"TANDEM_KAFKA_{name.upper()}": str(getattr(login, name)) for name in _SECRETS}
        self.tally = Tally(folder / "evidence.jsonl")
        self.tandem = Tandem(folder / "project", folders.ROOT, folders.child_environment(environ()) | secrets, self.tally)
        self.server = Server(f"http://127.0.0.1:{port}", self.state / "access" / "first.token")
        self.steps = Steps(self.tandem, self.server, self.tally, random.Random(1), parts=("speed", "serve"))
        self.log = Log(Settings(state=str(self.state), kafka=login), project.SOURCE)
        self.feeder = Feeder(self.tandem, self.server, self.tally, random.Random(2))
        self.comparer = Comparer(self.tandem, self.server, self.log, self.tally, self.steps.editions, random.Random(3))

    def run(self, *words: str, given: bytes | None = None) -> Ended:
        """Run a command, which has to succeed."""
        ended = self.tandem.run(*words, given=given)
        assert ended.code == 0, (ended.out, ended.err[-2000:])
        return ended

    def code_of(self, *words: str, given: bytes | None = None) -> str:
        """Run a command, which has to fail; the code of its error."""
        ended = self.tandem.run(*words, given=given)
        assert ended.code == 1, (ended.out, ended.err[-2000:])
        return str(ended.document["code"])

    @property
    def topic(self) -> kafka.Topic:
        """The project's topic as it is now."""
        return kafka.topic(self.operator, project.SOURCE)

    def partitions(self) -> list[dict[str, Any]]:
        """The topic's partitions as the brokers describe them now; none while they cannot be asked."""
        try:
            (described,) = self.operator.admin.describe_topics([project.SOURCE])
        except (KafkaError, OSError):
            return []
        return list(described["partitions"])

    def in_sync(self) -> bool:
        """Whether every replica of the topic has all of its records."""
        partitions = self.partitions()
        return bool(partitions) and all(set(each["isr_nodes"]) == set(each["replica_nodes"]) for each in partitions)

    def leaders(self) -> set[int]:
        """The nodes that lead a partition."""
        return {each["leader_id"] for each in self.partitions()}

    def wait_for_more(self, number: int) -> None:
        """Wait until that many more events are acknowledged."""
        before = len(self.feeder.acknowledged)
        wait_for(lambda: len(self.feeder.acknowledged) >= before + number, f"{number} more events to be acknowledged")


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds, which has to be in time."""
    began = time.monotonic()
    assert wait_until(condition, seconds=PATIENCE_S), f"waited {time.monotonic() - began:.0f} s for {what}"


@contextmanager
def cluster_project(folder: Path, login: Callable[[Brokers], KafkaSettings], *, count: int) -> Iterator[ClusterProject]:
    """The project while its brokers run; its user has no rights yet."""
    with run_brokers(Brokers(folder / "brokers", count)) as (brokers, operator):
        while not kafka.record_login(operator, USER, PASSWORD):
            time.sleep(0.02)
        cluster = ClusterProject(folder, brokers, operator, login(brokers), unused())
        try:
            yield cluster
        finally:
            cluster.tandem.run("down")


def by_password(brokers: Brokers) -> KafkaSettings:
    """The settings of the project's user with a password."""
    return brokers.by_password(USER, PASSWORD)


def grant_all(cluster: ClusterProject, principal: str) -> None:
    """Grant the documented rights."""
    allow(cluster.operator, principal, documented_rights(project.SOURCE))
