"""Options of an object store are those of delta-rs: for the port each goes to its group, and a wrong one is one sentence."""

from datetime import timedelta

import pytest

from infra.storage.client_options import client_options
from infra.storage.resolve import storage_at
from views.errors import TandemError


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


def test_all_groups_reach_the_client() -> None:
    storage_at("s3://b", {"aws_region": "x", "timeout": "5s", "max_retries": "0", "backoff_config.max_backoff": "1s"})


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
