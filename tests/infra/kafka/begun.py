"""The files of a started embedded broker in a state folder, without a broker: for tests of their readers."""

import msgspec

from tandem.infra import kafka
from tandem.infra.kafka import broker, broker_login
from tandem.infra.process import background
from tandem.infra.process.background import Process
from tandem.infra.settings import Settings


def begun(settings: Settings, *, port: int, pid: int) -> kafka.Address:
    """Leave it for this port and for a process that passes for the broker, and give the broker's address."""
    home = settings.folder / "broker"
    home.mkdir(parents=True, exist_ok=True)
    password = broker_login.provide(settings, f"127.0.0.1:{port}")
    (home / "ports.json").write_text(f'{{"port": {port}, "controller": 2}}')
    (home / "server.properties").write_text(
        f"mechanisms={broker_login.MECHANISM},PLAIN\nlogin={broker_login.configured(password)}\n"
    )
    (settings.folder / "run").mkdir(exist_ok=True)
    known = Process(broker.NAME, pid, background.start_time(pid), str(home / "broker.log"))
    (settings.folder / "run" / "broker.json").write_bytes(msgspec.json.encode(known))
    return broker.address(settings)
