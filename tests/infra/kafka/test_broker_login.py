"""A lost, damaged or replaced password file: every client reports it with the fix, and the next start repairs it."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tandem.infra import kafka
from tandem.infra.kafka import broker_login
from tandem.infra.settings import Settings
from tests.infra.kafka.begun import begun

AT: Final = "127.0.0.1:9092"
OTHER: Final = "another-password-that-is-long-enough-0123"
DAMAGE: Final[dict[str, Callable[[Path], object]]] = {
    "lost": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "blank": lambda file: file.write_bytes(b" \n"),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:5]),
    "no text": lambda file: file.write_bytes(b"\xff\x00\xfe" * 20),
    "two lines": lambda file: file.write_bytes(file.read_bytes() * 2),
}


def started(folder: Path) -> tuple[Settings, str]:
    """A state folder as the start of a broker leaves it, and the password."""
    settings = Settings(state=str(folder))
    return settings, begun(settings, port=9092, pid=os.getpid()).options["sasl.password"]


def test_all_clients_use_one_password_until_the_file_changes(tmp_path: Path) -> None:
    settings, password = started(tmp_path)
    assert broker_login.fault(settings) == ""
    assert broker_login.address(settings, AT).options["sasl.password"] == password
    assert broker_login.provide(settings, AT) == password


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_reported_and_replaced_by_the_next_start(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    settings, password = started(tmp_path)
    file = tmp_path / "broker" / "password"
    damage(file)
    with pytest.raises(kafka.BrokerRefused) as refused:
        broker_login.address(settings, AT)
    assert str(refused.value) == (
        f"the password of the broker is missing from {file}, or damaged; restart the broker with `tandem down` and `tandem up`"
    )
    made = broker_login.provide(settings, AT)
    assert made not in ("", password)
    assert (file.read_text().strip(), stat.S_IMODE(file.stat().st_mode)) == (made, 0o600)
    assert made in (tmp_path / "broker" / "java.properties").read_text()


def test_a_replaced_password_is_reported_and_used_by_the_next_start(tmp_path: Path) -> None:
    settings, _ = started(tmp_path)
    file = tmp_path / "broker" / "password"
    file.write_text(OTHER)
    with pytest.raises(kafka.BrokerRefused) as refused:
        broker_login.address(settings, AT)
    assert str(refused.value) == (
        f"the password in {file} differs from the password of the running broker; "
        "restart the broker with `tandem down` and `tandem up`"
    )
    assert OTHER not in str(refused.value)
    assert broker_login.provide(settings, AT) == OTHER
