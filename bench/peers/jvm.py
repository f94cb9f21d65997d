"""The processes of Java contestants."""

from collections.abc import Mapping

from tandem.bench.peers.contestant import Setting
from tandem.bench.peers.provided import LOCKS, Group
from tandem.infra.java import jar_fetch


def jvm(setting: Setting, group: Group, *options: str) -> tuple[str, ...]:
    """The start of a command line: Java with the heap that every contestant gets, and the class path of a program."""
    return (
        setting.provided.java,
        f"-Xmx{setting.memory}",
        *options,
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
        setting.provided.class_path(group),
    )


def version(group: Group, artifact: str) -> str:
    """The version of a jar by its name in the lock."""
    start = f"{group}/{artifact}-"
    return next(path.removeprefix(start).removesuffix(".jar") for path in jar_fetch.pinned(LOCKS) if path.startswith(start))


def properties(values: Mapping[str, str]) -> str:
    """A file that `java.util.Properties` loads."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in values.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
