"""An S3 server on loopback with one empty bucket, for the demo and for tests: moto's, in memory.

python -m tandem.cli.demo.s3_server    print the bucket's address and options as JSON, and serve until standard input ends

This server tells at COUNTS how many requests of each kind it has had: a method, or `LIST` for a listing.
"""

import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any, Final
from uuid import uuid4

import httpx
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

Application = Callable[[Any, Any], Iterable[bytes]]
"""A WSGI application."""
COUNTS: Final = "/-/requests"


@contextmanager
def bucket(
    around: Callable[[Application], Application] = lambda moto: moto, *, host: str = "127.0.0.1"
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The address of a prefix of an empty bucket, and the options with which a client reaches it.

    The server accepts any credentials, so `host` must be an address that no other machine reaches. `around` puts an application
    between it and its clients. moto checks whether a key exists, works, and then stores, so that two conditional puts may both
    succeed; here puts take turns, as in a store whose conditional puts are atomic.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # moto's dispatcher, which finds the service of each request, takes a third of the server's CPU.
    moto: Application = create_backend_app("s3")
    turn = Lock()

    def in_turn(environ: Any, start: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "PUT":
            return moto(environ, start)
        with turn:
            return list(moto(environ, start))

    with served(around(in_turn), host=host) as address:
        name = f"tandem-{uuid4().hex}"  # every server of the process has the same buckets
        httpx.put(f"{address}/{name}").raise_for_status()
        yield f"s3://{name}/tables", {"aws_endpoint_url": address, "aws_region": "us-east-1", "aws_allow_http": "true"}


@contextmanager
def served(application: Application, *, host: str = "127.0.0.1") -> Iterator[str]:
    """The address at which an application is served until the block ends."""
    server = make_server(host, 0, application, threaded=True, request_handler=MotoRequestHandler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class CountingRequests:
    """An application before the store that counts its requests."""

    counts: Counter[str] = field(default_factory=Counter)
    _one: Lock = field(default_factory=Lock)

    def around(self, store: Application) -> Application:
        """The store behind it."""

        def counting(environ: Any, start: Any) -> Iterable[bytes]:
            if environ["PATH_INFO"] == COUNTS:
                start("200 OK", [("Content-Type", "application/json")])
                return [json.dumps(self.counts).encode()]
            kind = "LIST" if "list-type=" in environ.get("QUERY_STRING", "") else environ["REQUEST_METHOD"]
            with self._one:
                self.counts[kind] += 1
            return store(environ, start)

        return counting


if __name__ == "__main__":
    with bucket(CountingRequests().around) as (url, options):
        sys.stdout.write(f"{json.dumps({'root': url, 'options': dict(options)})}\n")
        sys.stdout.flush()
        sys.stdin.read()
