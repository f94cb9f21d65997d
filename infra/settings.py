"""A project's settings: `tandem.toml`, overridden by `TANDEM_...` variables, with a default for every key.

A key `partitions` under `[kafka]` is `TANDEM_KAFKA_PARTITIONS` in the environment. What is written here beside each key is what
docs/configuration.md says, and `effective` is what `tandem check` shows.
"""

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, cast

import msgspec
from msgspec import Meta

from infra import folders
from views.errors import TandemError, listed

FILE = "tandem.toml"
PREFIX = "TANDEM_"
# Variables that are not settings of a project: the project to use, the cache folder, set-up's Python and Ivy configuration, the
# caller's name, and the configuration of DAGs.
OTHER_VARIABLES = frozenset(
    f"{PREFIX}{name}" for name in ("PROJECT", "CACHE", "PYTHON", "IVY_SETTINGS", "HYPOTHESIS", "AIRFLOW", "WHO")
)
_SECRET = re.compile(r"password|secret|token|jaas|credential|(access|account|private)[._]?key", re.IGNORECASE)
_PROPERTY: Final = re.compile(r"-D(?P<name>[^\s=]+)=(?P<value>[^\s\"']+)")
"""A system property among the options of a JVM."""
MASK: Final = "********"


class SettingsError(TandemError):
    """A settings file or variable that cannot be used."""


Positive = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
Memory = Annotated[str, Meta(pattern="^[0-9]+[kmgKMG]$")]
Port = Annotated[int, Meta(ge=0, le=65535)]


class Kafka(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[kafka]`: where the log is."""

    bootstrap: Annotated[str, Meta(description="host:port list of an outside broker; empty starts the embedded broker.")] = ""
    port: Annotated[Port, Meta(description="Port of the embedded broker on 127.0.0.1; 0 picks a free port and keeps it.")] = 0
    memory: Annotated[Memory, Meta(description="Maximum Java heap of the embedded broker, such as 512m or 2g.")] = "512m"
    partitions: Annotated[Positive, Meta(description="Partitions of a topic that Tandem creates.")] = 2
    replication: Annotated[Positive, Meta(description="Replicas of a topic that Tandem creates on an outside broker.")] = 1
    retention_hours: Annotated[Count, Meta(description="Retention of created topics; 0 keeps records for ever.")] = 0
    warn_hours: Annotated[
        Count,
        Meta(
            description="`status` warns this many hours before records that are not archived may be lost, at most half of the "
            "topic's retention."
        ),
    ] = 24
    security: Annotated[
        Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"], Meta(description="Security protocol of an outside broker.")
    ] = "plaintext"
    mechanism: Annotated[
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"], Meta(description="Login mechanism, with a sasl_ security.")
    ] = "PLAIN"
    username: Annotated[str, Meta(description="User name for the login.")] = ""
    password: Annotated[str, Meta(description="Password for the login; prefer the variable TANDEM_KAFKA_PASSWORD.")] = ""
    ca_file: Annotated[str, Meta(description="PEM file of trusted certificate authorities; empty uses the system's.")] = ""
    timeout_s: Annotated[Positive, Meta(description="Seconds until a broker counts as not answering.")] = 10


class Spark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[spark]`: where the work runs."""

    master: Annotated[str, Meta(description="Spark's master: local[N], or the address of a cluster.")] = "local[*]"
    driver_memory: Annotated[Memory, Meta(description="Maximum Java heap of a Spark driver, such as 512m or 2g.")] = "1g"
    conf: Annotated[dict[str, str], Meta(description="Additional Spark properties; they override Tandem's own.")] = {}


class Speed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[speed]`: the speed layer."""

    trigger_ms: Annotated[Count, Meta(description="Minimum time between two micro-batches; 0 starts the next one at once.")] = 0
    max_events: Annotated[Positive, Meta(description="Maximum number of events of one source in a micro-batch.")] = 200_000
    compact_every: Annotated[
        Positive, msgspec.Meta(description="Number of micro-batches between two compactions of a realtime table.")
    ] = 32
    ready_s: Annotated[Positive, Meta(description="Seconds until a started process must be ready.")] = 300
    broker_wait_s: Annotated[
        Positive, Meta(description="Seconds for which the speed layer waits for a broker that does not answer, before it ends.")
    ] = 600
    stuck_s: Annotated[
        Positive,
        Meta(
            description="Seconds without a commit or a poll at the end of a source's log after which the speed layer counts as "
            "stuck."
        ),
    ] = 60
    identities_mb: Annotated[
        Positive,
        Meta(
            description="Maximum megabytes of identities per source, at 96 bytes each. Beyond that the oldest are evicted, and "
            "status and answers report since when duplicates are recognised."
        ),
    ] = 1024


class Supervisor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[supervisor]`: how `up` keeps the parts that it starts running."""

    silent_s: Annotated[
        Positive,
        Meta(
            description="Seconds without a sign of life after which the supervisor kills and restarts a part. A sign of life "
            "is an answer of the broker, the server or Airflow, or one iteration of the speed layer's loop."
        ),
    ] = 30
    trigger_s: Annotated[
        Positive,
        Meta(
            description="Seconds, beyond `speed.trigger_ms`, within which each source must poll the end of the log or commit; "
            "otherwise the supervisor restarts the speed layer. Must exceed the longest micro-batch."
        ),
    ] = 300
    restart_s: Annotated[Positive, Meta(description="Seconds before a dead part is restarted; doubles with each failure.")] = 1
    longest_restart_s: Annotated[Positive, Meta(description="Maximum seconds between two restarts of a part.")] = 60
    failures: Annotated[
        Positive, Meta(description="Failures in a row after which the supervisor gives up on a part until the next `up`.")
    ] = 5
    settled_s: Annotated[Positive, Meta(description="Seconds that a part must run to reset its count of failures in a row.")] = (
        120
    )


class Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[batch]`: archive and recompute."""

    lock_wait_s: Annotated[Count, Meta(description="Seconds to wait for another run that holds the lock.")] = 600
    task_mb: Annotated[Positive, Meta(description="Megabytes of Parquet that one recompute task folds.")] = 128


class Keep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[keep]`: what of the past stays readable."""

    publications: Annotated[Positive, Meta(description="Number of newest publications to retain with their data.")] = 2
    days: Annotated[Count, Meta(description="Days for which a publication is retained after another one replaced it.")] = 0
    release_days: Annotated[
        Count, Meta(description="Days for which a formerly live release is kept up to date for a rollback, unless it is retired.")
    ] = 7
    file_hours: Annotated[
        int, Meta(ge=1, le=168, description="Hours for which an unused file stays on disk, for queries that still read it.")
    ] = 1


class Logs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[logs]`: what the processes say in `logs` of the state folder."""

    file_mb: Annotated[Positive, Meta(description="Maximum megabytes of a part's log file; then a new file begins.")] = 8
    kept_files: Annotated[Positive, Meta(description="Number of earlier log files to keep per part.")] = 3


class Lineage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[lineage]`: OpenLineage events about archive, recompute and the speed layer; none unless `url` or `file` is set."""

    url: Annotated[
        str, Meta(description="Address of an OpenLineage server, such as http://127.0.0.1:5000; empty turns sending off.")
    ] = ""
    token: Annotated[str, Meta(description="Bearer token for the server; prefer the variable TANDEM_LINEAGE_TOKEN.")] = ""
    file: Annotated[
        str, Meta(description="File for lineage events, one per line, relative to the state folder; empty turns it off.")
    ] = ""
    namespace: Annotated[str, Meta(min_length=1, description="Namespace of the project's jobs; use one name per project.")] = (
        "tandem"
    )
    timeout_s: Annotated[
        Positive, Meta(description="Maximum seconds that a run waits at its end for the delivery of events.")
    ] = 5
    every_s: Annotated[Positive, Meta(description="Seconds between two events of a running speed layer.")] = 60


Cron = Annotated[str, Meta(pattern=r"^(\S+ \S+ \S+ \S+ \S+)?$")]


class Airflow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[airflow]`: when the DAGs of `up --airflow` run; cron expressions in UTC, empty for never."""

    port: Annotated[Port, Meta(description="Port of Airflow's pages and API on 127.0.0.1; 0 picks a free port and keeps it.")] = 0
    recompute: Annotated[Cron, Meta(description="Schedule for archive, recompute and maintain.")] = "0 * * * *"
    full: Annotated[
        Cron,
        Meta(description="Schedule for recomputing all views at the published cut, which must reproduce the served answers."),
    ] = "30 3 * * 0"
    verify: Annotated[Cron, Meta(description="Schedule for verifying every view.")] = "30 2 * * *"
    maintain: Annotated[Cron, Meta(description="Maintain.")] = "0 2 * * *"
    watch_log: Annotated[
        Cron, Meta(description="Schedule for checking whether the log may lose records that are not archived.")
    ] = "*/10 * * * *"
    retries: Annotated[Count, Meta(description="Number of retries of a failed task.")] = 3
    retry_s: Annotated[Positive, Meta(description="Seconds before the first retry; later retries wait longer.")] = 30


class Oidc(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[serving.oidc]`: an identity provider whose tokens are taken beside the project's own; none without an issuer."""

    issuer: Annotated[str, Meta(description="Accepted `iss` of tokens; empty accepts none.")] = ""
    audience: Annotated[str, Meta(description="Required `aud` of tokens.")] = ""
    keys: Annotated[
        str, Meta(description="Address of the provider's JWK set, https or on loopback. The server contacts no other address.")
    ] = ""
    algorithm: Annotated[
        Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"],
        Meta(description="The only accepted signature algorithm."),
    ] = "RS256"
    typ: Annotated[
        str,
        Meta(
            description="Accepted header types (`typ`), separated by commas; `none` accepts a header without one, `at+jwt` is "
            "RFC 9068."
        ),
    ] = "at+jwt,JWT,none"
    refresh_s: Annotated[
        Positive, Meta(description="Seconds after which the keys are fetched again; a withdrawn key is refused by then.")
    ] = 300
    stale_s: Annotated[
        Positive, Meta(description="Seconds after which cached keys expire while the address does not answer; then 503.")
    ] = 3600
    leeway_s: Annotated[
        int, Meta(ge=0, le=300, description="Tolerated clock difference in seconds, for expiry and not-before.")
    ] = 30
    claim: Annotated[str, Meta(description="The claim that determines rights: a text or a list of texts.")] = "groups"
    rights: Annotated[
        dict[str, tuple[str, ...]],
        Meta(
            description="Rights by value of the claim: a list of verbs, `view:NAME` and `row:NAME=VALUE`. The first matching "
            "value counts."
        ),
    ] = {}


class Serving(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[serving]`: answers over HTTP."""

    port: Annotated[Port, Meta(description="Port of `tandem serve`; 0 picks a free port.")] = 8640
    poll_ms: Annotated[Positive, Meta(description="Milliseconds between two polls for new commits and publications.")] = 50
    rate: Annotated[Positive, Meta(description="Sustained requests per second of one token.")] = 1000
    burst: Annotated[Positive, Meta(description="Burst of requests of one token.")] = 2000
    failed_logins: Annotated[
        Positive, Meta(description="Invalid tokens per minute from one address; beyond it the answer is 429.")
    ] = 60
    concurrent: Annotated[
        Positive,
        Meta(description="Concurrent requests of one token, including streams and unread responses."),
    ] = 64
    streams: Annotated[Positive, Meta(description="Open streams of changes, of all tokens together.")] = 200
    concurrent_streams: Annotated[Positive, Meta(description="Open streams of changes of one token.")] = 32
    statements: Annotated[Positive, Meta(description="Concurrent SQL statements; one token may use all but one of them.")] = 4
    unread_mb: Annotated[
        Positive,
        Meta(
            description="Megabytes of responses that clients have not read yet; one token may use at most as much as is still "
            "free."
        ),
    ] = 256
    connections: Annotated[Positive, Meta(description="Open connections, of all addresses together.")] = 2000
    connections_per_address: Annotated[
        Positive, Meta(description="Open connections of one address (IPv6: a /64); a proxy is one address.")
    ] = 256
    head_s: Annotated[Positive, Meta(description="Seconds within which the head of a request must arrive.")] = 10
    keep_alive_s: Annotated[Positive, Meta(description="Seconds that an idle connection may wait for its next request.")] = 5
    least_bytes_s: Annotated[
        Positive,
        Meta(
            description="Minimum average rate, in bytes per second, at which a request's body must arrive and a response must "
            "be read."
        ),
    ] = 1024
    grace_s: Annotated[Positive, Meta(description="Seconds of a body or response before this rate applies.")] = 5
    max_rows: Annotated[
        Positive, Meta(description="Maximum number of rows of one response, keys of one lookup and records of one request.")
    ] = 10_000
    body_kb: Annotated[Positive, Meta(description="Maximum body of a request, in kilobytes.")] = 1024
    ingest_mb: Annotated[
        Positive,
        Meta(
            description="Maximum megabytes of received events that are not acknowledged yet, of all tokens together; one token "
            "may use at most half of them."
        ),
    ] = 64
    response_mb: Annotated[Positive, Meta(description="Maximum response before compression, in megabytes.")] = 64
    wait_s: Annotated[Positive, Meta(description="Maximum seconds that a request waits for the freshness it asks for.")] = 10
    timeout_s: Annotated[Positive, Meta(description="Maximum duration of a request, in seconds.")] = 30
    stale_s: Annotated[
        Count,
        Meta(description="Seconds for which broker or speed layer may be dead, stuck or given up before `/readyz` answers 503."),
    ] = 5
    held_mb: Annotated[
        Positive, Meta(description="Megabytes of cached answers, so that pages and repetitions stay on their snapshot.")
    ] = 256
    memory_mb: Annotated[
        Positive,
        Meta(
            description="Megabytes of views cached in memory, in `tandem serve` and in `connect`; other views are read from "
            "their files."
        ),
    ] = 1024
    oidc: Oidc = Oidc()


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings of one project; `state` is absolute once loaded."""

    state: Annotated[str, Meta(description="Folder of all state, relative to the project's folder.")] = ".tandem"
    kafka: Kafka = Kafka()
    spark: Spark = Spark()
    speed: Speed = Speed()
    supervisor: Supervisor = Supervisor()
    batch: Batch = Batch()
    keep: Keep = Keep()
    logs: Logs = Logs()
    lineage: Lineage = Lineage()
    airflow: Airflow = Airflow()
    serving: Serving = Serving()

    @property
    def folder(self) -> Path:
        """The state folder."""
        return Path(self.state)


class Key(NamedTuple):
    """One documented key: its dotted name, variable, type as written, default and meaning."""

    name: str
    variable: str
    type: str
    default: object
    meaning: str


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
    return msgspec.structs.replace(settings, state=str(folders.state_of(project, settings.state, environ)))


def keys() -> Iterator[Key]:
    """Every key, in the order of the file."""
    return _keys(Settings, "")


def _keys(struct: type[msgspec.Struct], section: str) -> Iterator[Key]:
    for field in msgspec.structs.fields(struct):
        if isinstance(field.default, msgspec.Struct):
            yield from _keys(type(field.default), f"{section}{field.name}.")
        else:
            yield _key(field, section)


def effective(settings: Settings) -> dict[str, Any]:
    """The settings as a document, with every secret masked."""
    return cast("dict[str, Any]", _masked(msgspec.to_builtins(settings)))


def secrets(settings: Settings) -> frozenset[str]:
    """The values that `effective` masks, also as JSON writes them: what no log may hold."""
    found = {text for text in _secret(msgspec.to_builtins(settings)) if text}
    return frozenset(found | {json.dumps(text)[1:-1] for text in found})


def without_secrets(content: bytes) -> bytes:
    """A settings file with every secret masked, so that it can be stored; empty if that cannot be done.

    A file without secrets, and a file that is not TOML, is given back as it is.
    """
    try:
        text = content.decode("utf-8")
        hidden = set(_secret(tomllib.loads(text)))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        return content
    for secret in sorted(hidden, key=len, reverse=True):
        for written in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
            text = text.replace(written, MASK)
    try:
        left = set(_secret(tomllib.loads(text))) - {MASK}
    except tomllib.TOMLDecodeError:
        return b""
    return b"" if left else text.encode("utf-8")


def _secret(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _secret(inner, key)
    elif value and _SECRET.search(name):
        yield str(value)
    elif isinstance(value, str):
        yield from (found["value"] for found in _PROPERTY.finditer(value) if _SECRET.search(found["name"]))


def _masked(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _masked(inner, key) for key, inner in value.items()}
    if value and _SECRET.search(name):
        return MASK
    return reduce(lambda text, secret: text.replace(secret, MASK), _secret(value), value) if isinstance(value, str) else value


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
        # A misspelt override that is silently ignored is the worst kind of setting.
        if name.startswith(PREFIX) and name not in known and (near := difflib.get_close_matches(name, known, 1, 0.8)):
            raise SettingsError(f"unknown environment variable {name}; did you mean {near[0]}?")


def _from_variable(key: Key, text: str) -> Any:
    if key.type == "table":
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            raise SettingsError(f"environment variable {key.variable}: {text!r} is not a JSON object") from None
    if key.type == "integer" and re.fullmatch(r"\s*-?\d+\s*", text):
        return int(text)
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
    shown = repr(_masked(value, last))
    return f"{where} = {shown} is not valid{choices}"


def _line(file: Path, name: str) -> str:
    """`:N` for the line on which the file first mentions the key."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except OSError:
        return ""
    mention = re.compile(rf"""\s*\[?\s*["']?{re.escape(name)}["']?\s*[\].=]""")
    return next((f":{number}" for number, line in enumerate(lines, 1) if mention.match(line)), "")


def _key(field: msgspec.structs.FieldInfo, section: str) -> Key:
    info = msgspec.inspect.type_info(field.type)
    meta = (info.extra_json_schema or {}) if isinstance(info, msgspec.inspect.Metadata) else {}
    plain = info.type if isinstance(info, msgspec.inspect.Metadata) else info
    match plain:
        case msgspec.inspect.IntType():
            kind = "integer"
        case msgspec.inspect.DictType():
            kind = "table"
        case msgspec.inspect.LiteralType(values=values):
            kind = " / ".join(map(str, values))
        case _:
            kind = "string"
    name = section + field.name
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return Key(name, PREFIX + name.replace(".", "_").upper(), kind, default, meta.get("description", ""))


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
