"""A server of a benchmark that prints a line when it answers."""

import json
import os
import socket

import uvicorn

from tandem.serving.http import listener


class Announced(uvicorn.Server):
    """Prints its address and process id, as JSON, once it answers."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets
        print(json.dumps({"address": listener.address_of(sockets[0], tls=None), "pid": os.getpid()}), flush=True)
