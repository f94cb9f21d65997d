"""Airflow's packages are reused without the network, and are not part of the main set-up."""

import re

from tandem.infra.airflow import packages
from tandem.infra.folders import ROOT
from tests.dags.local_airflow import needs_airflow


@needs_airflow
def test_the_second_call_does_nothing() -> None:
    said: list[str] = []
    # Without a PATH there is no package client to ask.
    packages.environment({}).provide(said.append, environ={"PATH": ""})
    assert said == []


def test_airflows_lock_has_hashes_and_no_address() -> None:
    text = packages.LOCK.read_text("utf-8")
    pinned = re.findall(r"^([a-z0-9.-]+)==", text, re.MULTILINE)
    assert {"apache-airflow-core", "apache-airflow-task-sdk", "apache-airflow-providers-standard"} <= set(pinned)
    assert not {"pyspark", "pyspark-client"} & set(pinned)
    assert text.count("--hash=sha256:") > len(pinned)
    assert "://" not in text


def test_a_change_of_airflows_lock_does_not_repeat_the_platforms_setup() -> None:
    script = (ROOT / "tandem").read_text("utf-8")
    (line,) = [line for line in script.splitlines() if line.startswith("locks=")]
    named = set(re.findall(r"[a-z]+\.lock", line))
    apart = {packages.LOCK.name, "build.lock", "docs.lock", "uv.lock"}
    assert named == {path.name for path in (ROOT / "infra" / "locks").glob("*.lock")} - apart
