"""An S3 server on loopback: moto's, in this process."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Any
from uuid import uuid4

import httpx
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server


@contextmanager
def bucket_of_moto() -> Iterator[tuple[str, Mapping[str, str]]]:
    """The URL of an empty bucket and the options with which a client reaches it.

    moto looks whether a key exists, works, and then stores: of two conditional puts both may win. So puts take turns here, as
    they do in a store that keeps its word.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto, turn = DomainDispatcherApplication(create_backend_app), Lock()

    def in_turn(environ: Any, start: Any) -> Any:
        if environ["REQUEST_METHOD"] != "PUT":
            return moto(environ, start)
        with turn:
            return moto(environ, start)

    server = make_server("127.0.0.1", 0, in_turn, threaded=True, request_handler=MotoRequestHandler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}"
        bucket = f"tandem-{uuid4().hex}"  # every server of the process has the same buckets
        httpx.put(f"{address}/{bucket}").raise_for_status()
        own = {"aws_endpoint_url": address, "aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_region": "us-east-1"}
        yield f"s3://{bucket}/tables", {**own, "aws_allow_http": "true"}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
