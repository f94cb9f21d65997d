"""Changes the logins of a broker by kafka-python."""

from typing import Final

from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from tandem.infra.kafka.errors import BrokerRefused
from tandem.infra.kafka.kafka_python.client import BrokerConnection, ask

_ITERATIONS: Final = 4096
"""The least that Kafka accepts: more would only protect a password that a person can remember."""


def record_login(connection: BrokerConnection, username: str, password: str) -> bool:
    """Record this user's SCRAM-SHA-512 login at the broker; a new password replaces the old one.

    The password does not leave this process: the broker gets its salted hash. False while the broker, which follows its
    controller, does not know any login of the user yet. Raises NoBroker or BrokerRefused.
    """
    credential = UserScramCredentialUpsertion(username, ScramMechanism.SCRAM_SHA_512, password, iterations=_ITERATIONS)
    admin = connection.admin
    told = ask(connection, "a login", lambda: admin.alter_user_scram_credentials([credential]))
    if refused := told.get(username):
        raise BrokerRefused(f"the login of '{username}' at {connection.address.bootstrap}: {refused}")
    known = ask(connection, "the logins", lambda: admin.describe_user_scram_credentials([username]))
    return bool(known[username]["credential_infos"])
