"""The login to a project's embedded broker: generated once, kept where only the project's user reads it.

`broker/password` in the state folder is the password; two files beside it give the whole login to other Kafka clients:
`java.properties` for Kafka's own tools, `librdkafka.properties` for kcat and the clients built on librdkafka. Clients log in by
SCRAM, which never sends the password, so a program that takes the broker's port while it is down does not learn it.
"""

import secrets
from pathlib import Path
from typing import Final

from infra import kafka, private
from infra.settings import Settings

USER: Final = "tandem"
MECHANISM: Final = "SCRAM-SHA-512"
SETUP: Final = "setup"
_SECURITY: Final = "sasl_plaintext"


def home(settings: Settings) -> Path:
    """The embedded broker's folder."""
    return settings.folder / "broker"


def address(settings: Settings, bootstrap: str) -> kafka.Address:
    """How to reach the embedded broker; raises NoBroker if it has no login yet."""
    try:
        password = (home(settings) / "password").read_text("ascii").strip()
    except FileNotFoundError:
        raise kafka.NoBroker(
            f"the broker of {settings.folder} was started by an older version and asks for no login; "
            "restart it with `tandem down` and `tandem up`"
        ) from None
    login = kafka.login(_SECURITY, MECHANISM, USER, password)
    return kafka.Address(bootstrap, login, settings.kafka.timeout_s)


def java_properties(settings: Settings) -> Path:
    """The file with which Kafka's own tools log in."""
    return home(settings) / "java.properties"


def provide(settings: Settings, bootstrap: str) -> str:
    """Make the password where there is none, write the files of other clients, and return the password."""
    password = home(settings) / "password"
    if not password.exists():
        private.write(password, secrets.token_urlsafe(32) + "\n")
    found = address(settings, bootstrap)
    private.write(java_properties(settings), _lines(kafka.java_options(found)))
    private.write(home(settings) / "librdkafka.properties", _lines({"bootstrap.servers": bootstrap, **found.options}))
    return found.options["sasl.password"]


def record(settings: Settings, bootstrap: str, *, setup: str) -> bool:
    """Have the broker know the login, whatever it knew before; False if it has to be asked again. Raises NoBroker.

    `setup` is the password of the user `setup`, whom the broker knows for one start; it is worthless elsewhere.
    """
    once = kafka.login(_SECURITY, "PLAIN", SETUP, setup)
    connection = kafka.connect(kafka.Address(bootstrap, once, settings.kafka.timeout_s))
    return kafka.record_login(connection, USER, address(settings, bootstrap).options["sasl.password"])


def _lines(options: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in options.items())
