"""How a server runs `tandem`: as a child process whose environment has only what a command needs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tandem.infra.process.bounded_child import BoundedChild
from tandem.infra.storage.resolve import VARIABLES
from tandem.serving.access.rights import Principal

MOST_BYTES: Final = 1 << 20
"""Larger documents are refused."""

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_NAMES: Final = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "JAVA_HOME", "PYTHONPATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        # Of the client of an object store: proxies, and the address at which a machine of Azure learns its role.
        *(*_PROXIES, *map(str.lower, _PROXIES), "IDENTITY_ENDPOINT", "IDENTITY_HEADER"),
        # Where Spark finds a cluster.
        *("HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBECONFIG"),
    )
)
_PREFIXES: Final = ("LC_", "SPARK_", "TANDEM_", *VARIABLES)
_LONGEST_NAME: Final = 200


@dataclass(frozen=True)
class TandemCommand:
    """`words` begin the command, `environ` is the server's environment."""

    words: Sequence[str]
    project: Path
    environ: Mapping[str, str] = field(repr=False)

    def child(self, command: str, options: Sequence[str], *, by: Principal) -> BoundedChild:
        """A child that runs a command of the project with `--json`, for a principal; each option is one word, `--name=value`."""
        words = [*self.words, command, *options, f"--project={self.project}", "--json"]
        return BoundedChild(words, {**_kept(self.environ), "TANDEM_WHO": _name(by)}, self.project, MOST_BYTES)


def document_of(printed: bytes) -> Any:
    """The JSON document that a command printed; None without one, for example when the command was killed."""
    try:
        return json.loads(printed)
    except ValueError:
        return None


def _kept(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name in _NAMES or name.startswith(_PREFIXES)}


def _name(by: Principal) -> str:
    """The principal in characters that environments and terminals accept: an identity provider may send any."""
    return "".join(c if c.isprintable() else "?" for c in str(by))[:_LONGEST_NAME]
