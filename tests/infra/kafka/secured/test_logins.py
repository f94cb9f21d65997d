"""Passwords, certificates and tokens at a real broker over TLS, by each client; a refusal is one sentence with its own code."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tandem.cli.doctor.log import _broker
from tandem.infra import kafka
from tandem.infra.kafka import broker as embedded
from tandem.infra.settings import KafkaSettings, Settings, SettingsError
from tandem.infra.spark.errors import SPARK_ERRORS, broker_refusal
from tandem.infra.spark.kafka_source import kafka_options
from tests.infra.kafka.secured.authority import Authority
from tests.infra.kafka.secured.brokers import Brokers, Right, allow, connection_of, run_brokers
from tests.infra.kafka.secured.token_issuer import TokenIssuer, serving

pytestmark = pytest.mark.broker

PASSWORD = 'quoted "password" with \\ and ='
KEY_PASSWORD = "a key's password"
SECRET = "a client's secret"
OPTIONS = {"client.id": "orders", "linger.ms": "1", "receive.buffer.bytes": "65536", "metadata.max.age.ms": "60000"}
LOGINS = ("password", "key", "token")
CODES = {
    "wrong password": "broker-login-refused",
    "wrong mechanism": "broker-login-refused",
    "unknown key": "broker-login-refused",
    "no key": "broker-login-refused",
    "wrong secret": "broker-login-refused",
    "unknown authority": "broker-authority-unknown",
}


@dataclass(frozen=True)
class Secured:
    """A broker that denies by default, two of its topics, and the settings of clients: `app` may use `granted` alone."""

    operator: kafka.BrokerConnection
    granted: kafka.Topic
    denied: kafka.Topic
    readable: kafka.Topic
    valid: Mapping[str, KafkaSettings]
    invalid: Mapping[str, KafkaSettings]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    issuer, brokers = TokenIssuer({"app": SECRET}), Brokers(folder)
    issuer.write_keys(brokers.keys)
    certificate = brokers.authority.sign("tokens")
    with run_brokers(brokers) as (_, operator), serving(issuer, certificate) as served:
        while not kafka.record_login(operator, "app", PASSWORD):
            time.sleep(0.02)
        for principal in ("User:app", "User:CN=app"):
            allow(operator, principal, [Right("TOPIC", "granted", ["READ", "WRITE"]), Right("TOPIC", "readable", ["DESCRIBE"])])
        allow(operator, "User:CN=reader", [Right("TOPIC", "granted", ["READ"])])
        topics = kafka.create(operator, ["granted", "denied", "readable"], Settings(kafka=brokers.operator))
        key, alien = brokers.authority.sign("app", password=KEY_PASSWORD), Authority(folder / "alien")
        valid = {
            "password": brokers.by_password("app", PASSWORD),
            "key": brokers.by_key(key, password=KEY_PASSWORD),
            "token": brokers.by_token(served.url, "app", SECRET),
        }
        valid = {name: msgspec.structs.replace(each, options=OPTIONS) for name, each in valid.items()}
        of_password = valid["password"]
        invalid = {
            "wrong password": brokers.by_password("app", "hush"),
            "wrong mechanism": msgspec.structs.replace(of_password, mechanism="PLAIN"),
            "unknown key": brokers.by_key(alien.sign("app")),
            "no key": msgspec.structs.replace(valid["key"], certificate_file="", key_file="", key_password=""),
            "wrong secret": brokers.by_token(served.url, "app", "hush"),
            "no right to write": brokers.by_key(brokers.authority.sign("reader")),
            "unknown authority": msgspec.structs.replace(of_password, ca_file=str(alien.file)),
        }
        yield Secured(operator, topics["granted"], topics["denied"], topics["readable"], valid, invalid)


def address_of(settings: KafkaSettings, *, timeout_s: int = 10) -> kafka.Address:
    return kafka.outside(Settings(kafka=msgspec.structs.replace(settings, timeout_s=timeout_s)))


def reading(address: kafka.Address, topic: kafka.Topic, end: int) -> int:
    """The number of records of partition 0 that the bulk reader returns below an end."""
    within = kafka.records_within(address, [topic], (topic.id, 0), (0, end), columns=["offset"])
    return sum(each.num_rows for each in within)


@pytest.mark.parametrize("login", LOGINS)
def test_each_login_asks_sends_and_reads(secured: Secured, login: str) -> None:
    address, topic = address_of(secured.valid[login]), secured.granted
    connection = kafka.connect(address)
    assert kafka.topic(connection, topic.name) == topic
    with kafka.Sender(address) as sender:
        sender.send_as(topic.name, 0, kafka.Record(1_700_000_000_000, None, b"x"))
    end = sender.positions[topic.name, 0]
    assert kafka.ends(connection, [topic])[topic.id, 0] == end == reading(address, topic, end)


@pytest.mark.parametrize("login", LOGINS)
def test_a_denied_topic_is_one_sentence_of_each_client(secured: Secured, login: str) -> None:
    address = address_of(secured.valid[login], timeout_s=60)
    with pytest.raises(kafka.RightMissing, match=r"^Kafka at \S+ denies the topics: .*docs/kafka.md lists the rights") as asked:
        kafka.topic(kafka.connect(address), secured.denied.name)
    denied = r"^Kafka at \S+ denies an append: .*; 0 records were acknowledged$"
    with pytest.raises(kafka.NotSent, match=denied) as sent, kafka.Sender(address) as sender:
        sender.send(secured.denied.name, b"x")
    with pytest.raises(kafka.RightMissing, match=r"^Kafka at \S+ denies records of topic 'readable': ") as read:
        reading(address, secured.readable, 1)
    assert {asked.value.code, sent.value.code, read.value.code} == {"broker-right-missing"}


@pytest.mark.parametrize(
    "login",
    [pytest.param(name, marks=[] if name in ("wrong password", "unknown authority") else pytest.mark.slow) for name in CODES],
)
def test_a_refused_login_is_one_sentence_of_each_client(secured: Secured, login: str) -> None:
    """A broker that starts may refuse a valid login, so librdkafka retries, and its refusal is reported after the timeout."""
    address, topic = address_of(secured.invalid[login], timeout_s=2), secured.granted

    def append() -> None:
        outcomes = list[kafka.Outcome]()
        appender = kafka.Appender(address, seconds=2)
        appender.append(topic.name, [kafka.Record(0, None, b"x")], outcomes.extend)
        appender.close()
        assert isinstance(outcomes[0], kafka.NotAppended)
        assert "Kafka at" in outcomes[0].why, outcomes[0].why

    def in_transaction() -> None:
        kafka.ExactlyOnceAppender(address, topic, "sink", {}).close()

    def refusal(ask: Callable[[], object]) -> kafka.BrokerRefused:
        with pytest.raises(kafka.BrokerRefused) as refused:
            ask()
        return refused.value

    tries: list[Callable[[], object]] = [
        lambda: kafka.connect(address),
        lambda: reading(address, topic, 1),
        in_transaction,
    ]
    # All at once, since each waits for its time-outs.
    with ThreadPoolExecutor(len(tries) + 1) as pool:
        sending = pool.submit(append)
        refusals = list(pool.map(refusal, tries))
        sending.result()
    for each in refusals:
        said = str(each)
        assert each.code == CODES[login], said
        assert "hush" not in said
        assert "kafka.ca_file = " in said if "authority" in login else "; check kafka." in said
        assert "\n" not in said


def test_a_user_who_may_write_nowhere_is_one_sentence(secured: Secured) -> None:
    """The broker gives such a producer no id, which librdkafka raises once, from whatever call comes next."""
    address, topic = address_of(secured.invalid["no right to write"]), secured.granted.name
    denied = r"^Kafka at \S+ denies an append: .*Cluster authorization failed; .*; 0 records were acknowledged$"
    with pytest.raises(kafka.NotSent, match=denied) as sent, kafka.Sender(address) as sender:
        sender.send(topic, b"x")
    assert sent.value.code == "broker-right-missing"
    outcomes = list[kafka.Outcome]()
    appender = kafka.Appender(address, seconds=60)
    appender.append(topic, [kafka.Record(0, None, b"x")], outcomes.extend)
    appender.close()
    assert isinstance(outcomes[0], kafka.NotAppended)
    assert "Cluster authorization failed" in outcomes[0].why
    assert appender.broken


@pytest.mark.parametrize("login", ["wrong password", "unknown authority"])
def test_the_doctor_says_how_to_fix_it(secured: Secured, login: str) -> None:
    class Subject:
        settings = Settings(kafka=secured.invalid[login])

        @property
        def connection(self) -> kafka.BrokerConnection:
            return kafka.connect(embedded.address(self.settings))

    (finding,) = _broker(Subject())  # type: ignore[arg-type]
    assert (finding.outcome, "Kafka at" in finding.what) == ("fail", True)
    assert "kafka.ca_file" in str(finding.fix) if "authority" in login else "docs/kafka.md" in str(finding.fix)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("login", [*LOGINS, *CODES])
def test_spark_logs_in_by_each_and_words_each_refusal(secured: Secured, spark: SparkSession, login: str) -> None:
    address = address_of(secured.valid.get(login) or secured.invalid[login])
    with kafka.Sender(address_of(secured.valid["password"])) as sender:
        sender.send(secured.granted.name, b"x")

    def count(topic: kafka.Topic) -> int:
        read = spark.read.format("kafka").options(**kafka_options(address)).option("subscribe", topic.name)
        return read.load().count()

    if login in CODES:
        with pytest.raises(SPARK_ERRORS) as failed:
            count(secured.granted)
    else:
        assert count(secured.granted) == sum(kafka.ends(secured.operator, [secured.granted]).values())
        with pytest.raises(SPARK_ERRORS) as failed:
            count(secured.denied)
    refusal = broker_refusal(failed.value, address)
    assert refusal is not None
    assert refusal.code == CODES.get(login, "broker-right-missing")
    assert "\n" not in str(refusal)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (KafkaSettings(key_file="k.pem"), "kafka.key_file needs kafka.certificate_file"),
        (KafkaSettings(certificate_file="c.pem"), "kafka.certificate_file needs kafka.key_file"),
        (
            KafkaSettings(certificate_file="c.pem", key_file="k.pem"),
            "kafka.certificate_file needs kafka.security = ssl or sasl_ssl, and it is plaintext",
        ),
        (
            KafkaSettings(security="sasl_ssl", mechanism="OAUTHBEARER"),
            "needs kafka.login_url and kafka.username and kafka.password",
        ),
        (
            KafkaSettings(
                security="sasl_ssl", mechanism="OAUTHBEARER", username="app", password="hush", login_url="http://host/token"
            ),
            "kafka.login_url = 'http://host/token' is not valid; expected an address with https, or one of loopback",
        ),
        (KafkaSettings(login_url="https://host/token"), "kafka.login_url needs kafka.mechanism = OAUTHBEARER"),
    ],
)
def test_a_login_that_lacks_something_is_one_sentence(settings: KafkaSettings, sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        address_of(settings)
    assert sentence in str(refused.value)
    assert "hush" not in str(refused.value)


def test_files_that_no_client_can_use_are_refused_at_once(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ours")
    key, other, brokers = authority.sign("app", password=KEY_PASSWORD), authority.sign("other"), Brokers(tmp_path)
    old = tmp_path / "old.pem"
    old.write_text("-----BEGIN EC PRIVATE KEY-----\n")
    right = brokers.by_key(key, password=KEY_PASSWORD)
    for sentence, changes in {
        "kafka.ca_file = '/no/such.pem' cannot be used: No such file": {"ca_file": "/no/such.pem"},
        "whose key is in kafka.key_file and opens by kafka.key_password": {"key_password": "hush"},
        "expected a PEM file of a certificate": {"key_file": str(other.key)},
        "has no private key in PKCS #8, which Java's clients need": {"key_file": str(old)},
        "kafka.key_file = '/no/such.pem' cannot be used": {"key_file": "/no/such.pem"},
    }.items():
        with pytest.raises(SettingsError) as refused:
            address_of(msgspec.structs.replace(right, **changes))
        assert sentence in str(refused.value)
        assert "hush" not in str(refused.value)
    with pytest.raises(SettingsError, match=r"opens by kafka\.key_password"):  # and does not ask at the terminal
        address_of(msgspec.structs.replace(right, key_password=""))


def test_a_key_is_told_to_java_without_its_file_and_its_password(tmp_path: Path) -> None:
    """Executors on other hosts have no such file, and Java opens no key that OpenSSL encrypted."""
    brokers = Brokers(tmp_path)
    key = brokers.authority.sign("app", password=KEY_PASSWORD)
    options = kafka.java_options(address_of(brokers.by_key(key, password=KEY_PASSWORD)))
    assert options["ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")
    assert options["ssl.keystore.certificate.chain"] == key.certificate.read_text()
    assert not any(KEY_PASSWORD in value or str(key.key) in value for value in options.values())


def test_one_broker_keeps_one_replica(secured: Secured) -> None:
    topic = secured.granted.name
    assert kafka.replicas(secured.operator, [topic]) == {topic: 1}
    assert kafka.configurations(secured.operator, [topic])[topic]["min.insync.replicas"] == "1"


def test_the_operator_is_asked_for_brokers(secured: Secured) -> None:
    assert kafka.brokers(connection_of(secured.valid["password"])) == 1
