"""A bare FastAPI handler that returns the bytes of one answer to whatever it is asked: FILE; prints a line when it answers.

The file is a JSON document with the answer's `headers` and its `body`. The module rates compares `tandem serve` with it.
"""

import json
import os
import socket
import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request, Response

from tandem.serving.http import listener


class Announced(uvicorn.Server):
    """Prints its address and process id, as JSON, once it answers."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets
        print(json.dumps({"address": listener.address_of(sockets[0], tls=None), "pid": os.getpid()}), flush=True)


def main(answer: Path) -> None:
    """Serve until it is ended, with the settings of uvicorn that `tandem serve` has."""
    said = json.loads(answer.read_text())
    body, headers, app = said["body"].encode(), said["headers"], FastAPI()

    @app.get("/views/{view}/row")
    async def row(view: str, request: Request) -> Response:  # noqa: ARG001 - what any handler of this route takes
        return Response(body, headers=headers)

    bound = listener.listening("127.0.0.1", 0, tls=None)
    Announced(listener.configured(app, http="httptools")).run(sockets=[bound])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
