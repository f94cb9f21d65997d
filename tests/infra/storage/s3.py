"""A bucket of an S3 server on loopback, with credentials that the server does not check."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from cli.demo.s3_server import bucket


@contextmanager
def a_bucket() -> Iterator[tuple[str, Mapping[str, str]]]:
    """The URL of an empty bucket and all options with which a client reaches it."""
    with bucket() as (url, options):
        yield url, {**options, "aws_access_key_id": "a", "aws_secret_access_key": "b"}
