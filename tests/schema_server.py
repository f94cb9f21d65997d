"""A small schema registry in this process, with the part of Confluent's API that is read."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass
class SchemaServer:
    """Schemas by id, GUID, and subject and version. `asked` are the paths of all requests.

    While `down`, each answer is this status. With a `login`, requests need it. With `text_only` descriptors are not returned.
    """

    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    down: int = 0
    login: str = ""
    text_only: bool = False
    port: int = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(
        self, key: str | int, schema: Any, *, kind: str = "AVRO", references: Sequence[Mapping[str, Any]] = (), text: str = ""
    ) -> None:
        """A schema under an id, a GUID or "subject/version": JSON, or the bytes of a descriptor."""
        content = base64.b64encode(schema).decode() if isinstance(schema, bytes) else json.dumps(schema)
        document: dict[str, Any] = {"schema": content, "text": text or content}
        if kind != "AVRO":
            document["schemaType"] = kind
        if references:
            document["references"] = references
        self.schemas[str(key)] = document

    def answer(self, path: str, login: str | None) -> tuple[int, Any]:
        """The status and document of a request."""
        self.asked.append(path)
        parts = urlsplit(path)
        if self.down:
            return self.down, {"error_code": 50001, "message": "down"}
        if self.login and login != f"Basic {base64.b64encode(self.login.encode()).decode()}":
            return 401, {"error_code": 40101, "message": "Unauthorized"}
        code = 40403
        match unquote(parts.path).strip("/").split("/"):
            case ["schemas", "ids" | "guids", key]:
                found = self.schemas.get(key)
            case ["subjects", subject, "versions", version]:
                found = self.schemas.get(f"{subject}/{version}")
                code = 40402 if any(key.startswith(f"{subject}/") for key in self.schemas) else 40401
            case _:
                return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        if found is None:
            return 404, {"error_code": code, "message": "not found"}
        serialized = parts.query == "format=serialized" and not self.text_only
        schema = found["schema"] if serialized or found.get("schemaType") != "PROTOBUF" else found["text"]
        return 200, {**{name: value for name, value in found.items() if name != "text"}, "schema": schema}


@contextmanager
def schema_server() -> Iterator[SchemaServer]:
    """A registry that answers until the context ends."""
    server = SchemaServer()

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, document = server.answer(self.path, self.headers.get("Authorization"))
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            if status in (301, 302):
                self.send_header("Location", server.address + "/schemas/ids/1")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as bound:
        server.port = bound.server_port
        thread = Thread(target=bound.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            bound.shutdown()
            thread.join()
