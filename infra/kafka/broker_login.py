"""The login to a project's embedded broker: generated once, and stored where only the project's user can read it.

`broker/password` in the state folder is the password; two files beside it give the whole login to other Kafka clients:
`java.properties` for Kafka's own tools, `librdkafka.properties` for kcat and the clients built on librdkafka. Clients log in by
SCRAM, which never sends the password, so a program that takes the broker's port while it is down does not learn it.
"""

import re
import secrets
from pathlib import Path
from typing import Final

from tandem.infra import kafka
from tandem.infra.files import private_files
from tandem.infra.settings import Settings

USER: Final = "tandem"
MECHANISM: Final = "SCRAM-SHA-512"
SETUP: Final = "setup"
_SECURITY: Final = "sasl_plaintext"
_PASSWORD: Final = re.compile("[!-~]{32,}")
_RESTART: Final = "restart it with `tandem down` and `tandem up`"


def home(settings: Settings) -> Path:
    """The embedded broker's folder."""
    return settings.folder / "broker"


def address(settings: Settings, bootstrap: str) -> kafka.Address:
    """The address and login of the embedded broker since its last start.

    Raises BrokerRefused if the password's file has changed since.
    """
    password = _password(settings)
    if found := fault(settings):
        raise kafka.BrokerRefused(f"{found}; restart the broker with `tandem down` and `tandem up`")
    assert password is not None
    return _address(settings, bootstrap, password)


def fault(settings: Settings) -> str:
    """Why the password in the file does not fit the broker that was started last; empty if it fits."""
    password, started = _password(settings), _started_with(settings)
    if password is None:
        return f"the password of the broker is missing from {_file(settings)}, or damaged"
    if started and configured(password) not in started:
        return f"the password in {_file(settings)} differs from the password of the running broker"
    return ""


def configured(password: str) -> str:
    """The login in the form of the broker's configuration."""
    return kafka.jaas(MECHANISM, USER, password)


def java_properties(settings: Settings) -> Path:
    """The file for the login of Kafka's own tools."""
    return home(settings) / "java.properties"


def provide(settings: Settings, bootstrap: str) -> str:
    """The password for the next start, created if its file has none. Also writes the files for other clients."""
    password = _password(settings)
    if password is None:
        password = secrets.token_urlsafe(32)
        private_files.write(_file(settings), f"{password}\n")
    found = _address(settings, bootstrap, password)
    private_files.write(java_properties(settings), _lines(kafka.java_options(found)))
    private_files.write(home(settings) / "librdkafka.properties", _lines({"bootstrap.servers": bootstrap, **found.options}))
    return password


def record(settings: Settings, bootstrap: str, *, setup: str) -> bool:
    """Record the login at the broker, in place of an earlier one; False if it has to be called again. Raises NoBroker.

    `setup` is the password of the user `setup`, which is valid only for one start of this broker.
    """
    once = kafka.login(_SECURITY, "PLAIN", SETUP, setup)
    connection = kafka.connect(kafka.Address(bootstrap, once, settings.kafka.timeout_s))
    return kafka.record_login(connection, USER, address(settings, bootstrap).options["sasl.password"])


def _file(settings: Settings) -> Path:
    return home(settings) / "password"


def _password(settings: Settings) -> str | None:
    """Read the password; None if its file is missing or damaged."""
    try:
        text = _file(settings).read_bytes().decode("ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return text if _PASSWORD.fullmatch(text) else None


def _started_with(settings: Settings) -> str:
    """The configuration of the broker's last start; empty if there was none."""
    try:
        return (home(settings) / "server.properties").read_text("utf-8")
    except FileNotFoundError:
        return ""


def _address(settings: Settings, bootstrap: str, password: str) -> kafka.Address:
    return kafka.Address(bootstrap, kafka.login(_SECURITY, MECHANISM, USER, password), settings.kafka.timeout_s)


def _lines(options: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in options.items())
