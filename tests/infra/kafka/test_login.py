"""A wrong login is told at once as what it is, never as a broker that does not answer."""

import time
from pathlib import Path

import pytest

from infra import broker as embedded
from infra import kafka, processes
from infra.ports import unused
from infra.settings import Kafka, Settings
from tests.stack import environ

pytestmark = pytest.mark.broker

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_me="right";'


def test_a_wrong_password_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = unused()
    given = embedded._PROPERTIES.replace("PLAINTEXT://{host}:{port}", f"PLAINTEXT://{{host}}:{{port}},SASL://127.0.0.1:{port}")
    given = given.replace("PLAINTEXT:PLAINTEXT", "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT")
    monkeypatch.setattr(
        embedded, "_PROPERTIES", f"{given}sasl.enabled.mechanisms=PLAIN\nlistener.name.sasl.plain.sasl.jaas.config={JAAS}\n"
    )
    settings = Settings(state=str(tmp_path), kafka=Kafka(memory="256m", timeout_s=20))
    with processes.starting(tmp_path):
        process = embedded.start(settings, environ=environ())
    try:
        login = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
        right = kafka.Address(f"127.0.0.1:{port}", login | {"sasl.password": "right"}, 20)
        wrong = kafka.Address(right.bootstrap, login | {"sasl.password": "hush"}, 20)
        assert kafka.describe(kafka.connect(right), ["x"]) == {}
        began = time.monotonic()
        with pytest.raises(kafka.BrokerRefused, match=r"refuses the login: .*[Aa]uthentication") as refused:
            kafka.connect(wrong)
        assert time.monotonic() - began < 10
        assert "hush" not in str(refused.value)
    finally:
        processes.stop(tmp_path, process, seconds=20)
