"""Options of an object store are those of delta-rs: for the port each goes to its group, and a wrong one is one sentence."""

import time
from datetime import timedelta
from typing import Final

import pytest

from tandem.infra.storage.client_options import client_options
from tandem.infra.storage.object_store import ObjectStore, StoreFailed
from tandem.infra.storage.resolve import storage_at
from tandem.views.errors import TandemError
from tests.infra.storage.quick_s3 import quick_bucket
from tests.infra.storage.s3 import Refusing, a_bucket

ONCE: Final = {"max_retries": "0"}
SOON: Final = {"backoff_config.init_backoff": "1ms", "backoff_config.max_backoff": "2ms"}


def test_each_option_goes_to_its_group() -> None:
    found = client_options(
        {
            "aws_region": "eu-north-1",
            "aws_allow_http": "true",
            "timeout": "5s",
            "max_retries": "3",
            "retry_timeout": "2m",
            "backoff_config.init_backoff": "10ms",
            "backoff_config.base": "1.5",
            "object_store_concurrency_limit": "8",
        }
    )
    assert found.store == {"aws_region": "eu-north-1"}
    assert found.client == {"allow_http": "true", "timeout": "5s"}
    assert found.retry == {
        "max_retries": 3,
        "retry_timeout": timedelta(minutes=2),
        "backoff": {"init_backoff": timedelta(milliseconds=10), "base": 1.5},
    }


def test_options_of_the_store_reach_it() -> None:
    with a_bucket(of=quick_bucket) as (url, options):
        assert ObjectStore(url, options).put_if_absent("a", b"x")


@pytest.mark.parametrize(
    ("root", "prefix"),
    [("s3://b", "aws_"), ("gs://b", "google_"), ("abfss://c@a.dfs.core.windows.net", "azure_"), ("s3://b", "AWS_")],
)
def test_a_client_option_may_have_the_prefix_of_its_store(root: str, prefix: str) -> None:
    """obstore panics on it among the options of the store; delta-rs takes it."""
    for name, value in {"allow_http": "true", "timeout": "5s", "user_agent": "tandem"}.items():
        assert client_options({f"{prefix}{name}": value}).client == {name: value}
        storage_at(root, {f"{prefix}{name}": value})


@pytest.mark.parametrize("repeated", [0, 2])
def test_a_failing_request_is_repeated_as_often_as_the_options_allow(repeated: int) -> None:
    store = Refusing("503 Slow Down")
    with a_bucket(store, of=quick_bucket) as (url, options), pytest.raises(StoreFailed):
        ObjectStore(url, {**options, **SOON, "max_retries": str(repeated)}).head("a")
    assert store.requests == 1 + repeated


def test_requests_are_repeated_no_longer_than_the_options_allow() -> None:
    store = Refusing("503 Slow Down", delay_s=0.2)
    with a_bucket(store, of=quick_bucket) as (url, options), pytest.raises(StoreFailed):
        ObjectStore(url, {**options, **SOON, "retry_timeout": "100ms"}).head("a")
    assert store.requests == 1


def test_a_repetition_waits_as_long_as_the_options_say() -> None:
    waits = {"backoff_config.init_backoff": "500ms", "backoff_config.max_backoff": "500ms", "max_retries": "1"}
    began = time.monotonic()
    with a_bucket(Refusing("503 Slow Down"), of=quick_bucket) as (url, options), pytest.raises(StoreFailed):
        ObjectStore(url, {**options, **waits}).head("a")
    assert time.monotonic() - began >= 0.5


def test_the_client_waits_for_an_answer_as_long_as_the_options_allow() -> None:
    store = Refusing("404 Not Found", delay_s=1.0)
    with a_bucket(store, of=quick_bucket) as (url, options):
        assert ObjectStore(url, {**options, **ONCE, "timeout": "30s"}).head("a") is None
        with pytest.raises(StoreFailed):
            ObjectStore(url, {**options, **ONCE, "timeout": "200ms"}).head("a")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("max_retries", "many", "storage.options: max_retries = 'many'; expected a whole number"),
        ("retry_timeout", "3", "storage.options: retry_timeout = '3'; expected a duration such as 500ms, 10s or 3m"),
        ("backoff_config.base", "x", "storage.options: backoff_config.base = 'x'; expected a number"),
        ("timeout", "soon", 'failed to parse "soon" as Duration; set storage.options as delta-rs names them'),
        (
            "aws_regionn",
            "x",
            "cannot use s3://b: Configuration key: 'aws_regionn' is not valid for store 'S3'; set storage.options",
        ),
    ],
)
def test_a_wrong_option_is_one_sentence(name: str, value: str, told: str) -> None:
    with pytest.raises(TandemError) as error:
        storage_at("s3://b", {name: value})
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_client_is_made_once_for_an_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    one = storage_at("s3://b", {"aws_region": "x"})
    assert storage_at("s3://b", {"aws_region": "x"}) is one
    assert storage_at("s3://b", {"aws_region": "y"}) is not one
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "b")
    assert storage_at("s3://b", {"aws_region": "x"}) is not one
