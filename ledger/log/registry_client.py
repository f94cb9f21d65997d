"""A client of schema registries: Confluent's API, which Karapace, Redpanda and Apicurio (`/apis/ccompat/v7`) also have."""

import base64
import json
import ssl
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote

from google.protobuf import (
    any_pb2,
    api_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from tandem.infra.settings.toml_tables.registry import RegistrySettings
from tandem.views.errors import TandemError
from tandem.views.source.formats.schema_registry import FetchedSchema, SchemaKey, address_fault

_LARGEST: Final = 16 << 20
_NO_SCHEMA: Final = 40403
"""The code with which a registry says that it has no schema of an id. Any other 404 of an id is a wrong address."""
_NO_VERSION: Final = (40401, 40402, _NO_SCHEMA)
"""The codes with which a registry says that it has no such subject, or no such version of it."""
_MOST_REFERENCES: Final = 1000
_FORMATS: Final = {"PROTOBUF": "?format=serialized"}
_WELL_KNOWN: Final = {
    module.DESCRIPTOR.name: module.DESCRIPTOR
    for module in (
        any_pb2,
        api_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        source_context_pb2,
        struct_pb2,
        timestamp_pb2,
        type_pb2,
        wrappers_pb2,
    )
}


class RegistryAway(TandemError, code="registry-away"):
    """A schema registry cannot be reached, refuses the login, or does not answer as a registry does."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the login is for the named address."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


@dataclass(frozen=True)
class RegistryClient:
    """Asks the registries that decoders name, or the one of the settings."""

    settings: RegistrySettings

    def fetch(self, key: SchemaKey) -> FetchedSchema:
        """The schema with all that it refers to, empty if the registry has none of this id. Raises RegistryAway."""
        by = "ids" if key.id.isdecimal() else "guids"
        answer = self._ask(key.registry, f"/schemas/{by}/{key.id}{_FORMATS.get(key.kind, '')}")
        if answer is None:
            return FetchedSchema()
        kind, text = answer.get("schemaType") or "AVRO", str(answer.get("schema", ""))
        if kind != key.kind or kind == "JSON":
            return FetchedSchema(kind, text)
        others = self._references(key, answer)
        return FetchedSchema(kind, _whole_avro(text, others) if kind == "AVRO" else _whole_protobuf(text, others))

    def version(self, registry: str, subject: str, version: str) -> Mapping[str, Any] | None:
        """The registry's document of a version of a subject; None if it has none. Raises RegistryAway."""
        path = f"/subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}"
        return self._ask(registry, path, absent=_NO_VERSION)

    def _references(self, key: SchemaKey, answer: Mapping[str, Any]) -> dict[str, str]:
        """The texts of all schemas to which one refers, by the names of the references; each after those that it refers to."""
        texts: dict[str, str] = {}
        begun: set[str] = set()

        def add(references: Sequence[Mapping[str, Any]]) -> None:
            for reference in references:
                name = str(reference["name"])
                if name in begun:
                    continue
                if len(begun) >= _MOST_REFERENCES:
                    raise RegistryAway(f"schema {key.id} of {key.registry} refers to more than {_MOST_REFERENCES} schemas")
                begun.add(name)
                subject, version = quote(str(reference["subject"]), safe=""), int(reference["version"])
                path = f"/subjects/{subject}/versions/{version}{_FORMATS.get(key.kind, '')}"
                part = self._ask(key.registry, path, absent=_NO_VERSION)
                if part is None:
                    raise RegistryAway(
                        f"the schema registry {key.registry} does not have version {version} of {reference['subject']!r}, to "
                        f"which schema {key.id} refers; register it again"
                    )
                add(part.get("references") or ())
                texts[name] = str(part.get("schema", ""))

        add(answer.get("references") or ())
        return texts

    def _ask(self, registry: str, path: str, absent: Sequence[int] = (_NO_SCHEMA,)) -> dict[str, Any] | None:
        """The document at a path of the API; None if the registry says that it has none, with one of the codes `absent`."""
        if self.settings.url and (fault := address_fault(self.settings.url)):
            raise RegistryAway(f"the setting `registry.url` {fault}")
        address = (self.settings.url or registry).partition("#")[0].rstrip("/")
        headers = {"Accept": "application/vnd.schemaregistry.v1+json", **self._login()}
        request = urllib.request.Request(f"{address}{path}", headers=headers)  # noqa: S310 - checked: http or https
        try:
            with self._opener.open(request, timeout=self.settings.timeout_s) as answer:
                content = answer.read(_LARGEST + 1)
            if len(content) > _LARGEST:
                raise RegistryAway(f"the schema registry {address} returned more than {_LARGEST >> 20} MiB for {path}")
        except HTTPError as error:
            if error.code == 404 and _code_of(error) in absent:
                return None
            raise RegistryAway(f"the schema registry {address} answered {error.code} for {path}{_advice(error.code)}") from error
        except (OSError, HTTPException) as error:
            raise RegistryAway(f"the schema registry {address} cannot be asked: {getattr(error, 'reason', error)}") from error
        except ValueError:
            # The error quotes the header, which is a secret.
            raise RegistryAway(
                f"the schema registry {address} cannot be asked: its address or login has a character that HTTP does not allow"
            ) from None
        try:
            document = json.loads(content)
        except ValueError:
            document = None
        if not isinstance(document, dict) or not isinstance(document.get("schema"), str):
            raise RegistryAway(f"the schema registry {address} returned something else than a schema for {path}")
        return document

    @cached_property
    def _opener(self) -> urllib.request.OpenerDirector:
        context = ssl.create_default_context(cafile=self.settings.ca_file or None)
        return urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))

    def _login(self) -> dict[str, str]:
        if token := self.settings.token.strip():
            return {"Authorization": f"Bearer {token}"}
        if self.settings.username or self.settings.password:
            both = base64.b64encode(f"{self.settings.username}:{self.settings.password}".encode()).decode()
            return {"Authorization": f"Basic {both}"}
        return {}


def _code_of(error: HTTPError) -> Any:
    try:
        return json.loads(error.read(_LARGEST)).get("error_code")
    except (OSError, HTTPException, ValueError, AttributeError):
        return None


def _advice(code: int) -> str:
    if code in (401, 403):
        return "; set `registry.username` and TANDEM_REGISTRY_PASSWORD, or TANDEM_REGISTRY_TOKEN"
    return "; is the address that of a registry's API?" if code == 404 else ""


def _whole_avro(text: str, others: Mapping[str, str]) -> str:
    """The schema with each named type that it refers to defined where it is first used."""
    if not others:
        return text
    left = {name: json.loads(part) for name, part in others.items()}

    def whole(schema: Any, space: str) -> Any:
        if isinstance(schema, list):
            return [whole(branch, space) for branch in schema]
        if isinstance(schema, str):
            full = schema if "." in schema or not space else f"{space}.{schema}"
            name = full if full in left else schema
            return whole(left.pop(name), "") if name in left else schema
        inner = str(schema.get("namespace", space))
        if "." in str(schema.get("name", "")):
            inner = str(schema["name"]).rpartition(".")[0]
        expanded = dict(schema)
        for part in ("type", "items", "values"):
            if isinstance(expanded.get(part), str | list | dict):
                expanded[part] = whole(expanded[part], inner)
        if isinstance(expanded.get("fields"), list):
            expanded["fields"] = [{**each, "type": whole(each["type"], inner)} for each in expanded["fields"]]
        return expanded

    return json.dumps(whole(json.loads(text), ""))


def _whole_protobuf(text: str, others: Mapping[str, str]) -> str:
    """The descriptors of a schema and all its imports; empty if the registry returned one as text, whatever was asked."""
    try:
        files = [FileDescriptorProto.FromString(base64.b64decode(part, validate=True)) for part in (*others.values(), text)]
    except (ValueError, DecodeError):
        return ""
    for name, file in zip(others, files, strict=False):
        file.name = name
    if not files[-1].name or files[-1].name in others:
        files[-1].name = "the schema.proto"
    have = {file.name for file in files}
    imported: dict[str, FileDescriptorProto] = {}
    for file in files:
        _add_google_files(file.dependency, have, imported)
    return base64.b64encode(FileDescriptorSet(file=[*imported.values(), *files]).SerializeToString()).decode()


def _add_google_files(names: Sequence[str], have: set[str], imported: dict[str, FileDescriptorProto]) -> None:
    """Add the files of Google's that every compiler has, each after those that it imports."""
    for name in names:
        if name in _WELL_KNOWN and name not in have and name not in imported:
            file = FileDescriptorProto()
            _WELL_KNOWN[name].CopyToProto(file)
            _add_google_files(file.dependency, have, imported)
            imported[name] = file
