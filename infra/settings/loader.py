"""A project's settings: `tandem.toml`, overridden by `TANDEM_...` variables, with a default for every key.

A key `partitions` under `[kafka]` is `TANDEM_KAFKA_PARTITIONS` in the environment.
"""

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tandem.infra import folders
from tandem.infra.settings.kafka_clients import option_fault
from tandem.infra.settings.list_keys import PREFIX, Key, keys
from tandem.infra.settings.masking import masked
from tandem.infra.settings.settings import Settings
from tandem.infra.settings.spark_master import cluster_fault
from tandem.infra.settings.toml_tables.storage import OBJECT_STORES, StorageSettings
from tandem.views.errors import TandemError, listed

FILE: Final = "tandem.toml"
# Variables that are not settings of a project: the project to use, the cache folder, set-up's Python and Ivy configuration, the
# caller's name, the launcher's path, and the configuration of DAGs.
OTHER_VARIABLES = frozenset(
    f"{PREFIX}{name}" for name in ("PROJECT", "CACHE", "PYTHON", "IVY_SETTINGS", "HYPOTHESIS", "AIRFLOW", "WHO", "LAUNCHER")
)
_CREDENTIAL: Final = re.compile(r"(secret|token|password|(access|account|customer|master)_key|sas)(?!.*(_file|_path|_uri)$)")
_IN_ADDRESS: Final = re.compile(r"://[^/?#@]*:[^/?#@]*@|[?&]sig=", re.IGNORECASE)
"""A password, or the signature of a shared access, in an address."""


class SettingsError(TandemError, code="settings-invalid"):
    """A settings file or variable that cannot be used."""


def load(project: Path, environ: Mapping[str, str]) -> Settings:
    """The settings of the project in this folder; a missing or empty file means the defaults.

    Raises SettingsError, naming file, line or variable, the value and what would be valid.
    """
    file = project / FILE
    document = _read(file)
    _refuse_unknown(document, Settings, file, "")
    _refuse_unknown_variables(environ)
    for key in keys():
        if (text := environ.get(key.variable)) is not None:
            *sections, name = key.name.split(".")
            place = document
            for section in sections:
                place = place.setdefault(section, {})
            place[name] = _from_variable(key, text)
    try:
        settings = msgspec.convert(document, Settings, strict=True)
    except msgspec.ValidationError as error:
        raise SettingsError(_invalid(error, document, file, environ)) from None
    if "://" in settings.state:
        raise SettingsError(f"{file}: state = {settings.state!r} is an address; expected a folder of this machine")
    settings = msgspec.structs.replace(settings, storage=_storage(settings.storage, project, file))
    settings = msgspec.structs.replace(settings, state=str(folders.state_of(project, settings.state, environ)))
    if fault := cluster_fault(settings) or option_fault(settings.kafka):
        raise SettingsError(f"{file}: {fault}")
    return settings


def _storage(storage: StorageSettings, project: Path, file: Path) -> StorageSettings:
    """The same with an absolute root. Raises SettingsError for an address that no client knows, and for credentials."""
    addresses = {"root": storage.root, **{f"options: '{name}'": value for name, value in storage.options.items()}}
    for name, value in addresses.items():
        if _IN_ADDRESS.search(value):
            raise SettingsError(f"{file}: storage.{name} has a credential in its address; give it in the environment instead")
    for name in storage.options:
        if _CREDENTIAL.search(name.lower()):
            raise SettingsError(
                f"{file}: storage.options: '{name}' is a credential; set the environment variable {name.upper()} instead, "
                "or give the machine a role"
            )
    scheme, separator, place = storage.root.partition("://")
    if separator:
        if scheme not in OBJECT_STORES or not place.partition("/")[0]:
            raise SettingsError(
                f"{file}: storage.root = {storage.root!r} is not an address of an object store; expected a folder, or an address "
                f"such as s3://bucket/prefix, with one of {', '.join(OBJECT_STORES)}"
            )
        return msgspec.structs.replace(storage, root=storage.root.rstrip("/"))
    if storage.options:
        raise SettingsError(f"{file}: storage.options are of object stores; storage.root = {storage.root!r} is a folder")
    if not storage.root:
        return storage
    return msgspec.structs.replace(storage, root=str((project / Path(storage.root).expanduser()).resolve()))


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file}: byte {error.start} is not UTF-8; a TOML file is UTF-8 text") from None
    except OSError as error:
        raise SettingsError(f"cannot read {file}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file}: not valid TOML: {_lower(str(error))}") from None


def _refuse_unknown(document: Mapping[str, Any], struct: type[msgspec.Struct], file: Path, section: str) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    for name, value in document.items():
        if name not in fields:
            where = f"[{section}] of {file}" if section else str(file)
            raise SettingsError(f"{where}{_line(file, name)}: unknown key '{name}'; keys: {listed(name, fields)}")
        default = fields[name].default
        if isinstance(default, msgspec.Struct) and isinstance(value, dict):
            _refuse_unknown(value, type(default), file, f"{section}.{name}" if section else name)


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    known = {key.variable for key in keys()} | OTHER_VARIABLES
    for name in sorted(environ):
        # A misspelt variable must not be ignored silently.
        if name.startswith(PREFIX) and name not in known and (near := difflib.get_close_matches(name, known, 1, 0.8)):
            raise SettingsError(f"unknown environment variable {name}; did you mean {near[0]}?")


def _from_variable(key: Key, text: str) -> Any:
    if key.type == "table":
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            # Not its value, which may contain a secret.
            expected = '{"name": "value"}'
            raise SettingsError(f"environment variable {key.variable} is not a JSON object, such as {expected}") from None
    if key.type == "integer" and re.fullmatch(r"\s*-?\d+\s*", text):
        return int(text)
    if key.type == "true / false" and text in ("true", "false"):
        return text == "true"
    return text


def _invalid(error: msgspec.ValidationError, document: Mapping[str, Any], file: Path, environ: Mapping[str, str]) -> str:
    reason, _, path = str(error).partition(" - at `$.")
    # `spark.conf[...]` does not say which of the table's values it is.
    name = path.rstrip("`").removesuffix("[...]")
    value: Any = document
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    key = next((key for key in keys() if key.name == name), None)
    last = name.rpartition(".")[2]
    in_file = f"{file}{_line(file, last)}: {name}"
    where = f"environment variable {key.variable}" if key and key.variable in environ else in_file
    choices = f": choose one of {key.type}" if key and " / " in key.type else f": {_lower(reason).replace('`', '')}"
    shown = repr(masked(value, last))
    return f"{where} = {shown} is not valid{choices}"


def _line(file: Path, name: str) -> str:
    """`:N` for the line on which the file first mentions the key."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except OSError:
        return ""
    mention = re.compile(rf"""\s*\[?\s*["']?{re.escape(name)}["']?\s*[\].=]""")
    return next((f":{number}" for number, line in enumerate(lines, 1) if mention.match(line)), "")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
