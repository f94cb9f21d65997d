"""A container of Azurite, Microsoft's emulator of Azure's blob service, from packages whose SHA-512 are in a package-lock.json.

It is optional: a machine without Node, or that reaches no registry, skips its tests. Account and key are Azurite's public ones.
"""

import base64
import hashlib
import hmac
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Final
from unittest.mock import patch

import httpx
import pytest

_LOCKED: Final = Path(__file__).with_name("azurite")
_SERVER: Final = "node_modules/azurite/dist/src/blob/main.js"
_INSTALL_S: Final = 600
_ACCOUNT: Final = "devstoreaccount1"
_KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_CONTAINER: Final = "tandem"


@cache
def _installed() -> TemporaryDirectory[str] | None:
    """A folder with the packages, until the process ends."""
    folder = TemporaryDirectory()
    for file in _LOCKED.glob("*.json"):
        shutil.copy(file, folder.name)
    command = ["npm", "ci", "--ignore-scripts", "--omit=dev", "--omit=optional", "--no-audit", "--no-fund"]
    if shutil.which("npm") is None:
        return None
    try:
        done = subprocess.run(command, cwd=folder.name, capture_output=True, timeout=_INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return folder if done.returncode == 0 else None


@contextmanager
def azure_container(scheme: str = "abfss") -> Iterator[tuple[str, Mapping[str, str]]]:
    """The address of a prefix of an empty container, and the options with which a client reaches it.

    The environment has the key meanwhile.
    """
    if (folder := _installed()) is None:
        pytest.skip("Azurite cannot be installed: it needs Node with npm, and a registry")
    command = ["node", _SERVER, "--inMemoryPersistence", "--blobHost", "127.0.0.1", "--blobPort", "0"]
    command += ["--silent", "--skipApiVersionCheck"]
    environ = {"AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": _KEY}
    with (
        subprocess.Popen(command, cwd=folder.name, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running,
        patch.dict(os.environ, environ),
    ):
        assert running.stdout is not None
        try:
            address = next(line.split()[-1] for line in running.stdout if "successfully listens on" in line)
            Thread(target=running.stdout.read, daemon=True).start()
            _create(address)
            host = f"{_CONTAINER}@{_ACCOUNT}.dfs.core.windows.net" if scheme == "abfss" else _CONTAINER
            endpoint = {"azure_storage_endpoint": f"{address}/{_ACCOUNT}", "azure_allow_http": "true"}
            yield f"{scheme}://{host}/tables", endpoint
        finally:
            running.kill()


def _create(address: str) -> None:
    """Create the container, by a request with a shared key's signature."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    sent = (f"{name}:{value}" for name, value in headers.items())
    signed = "\n".join(("PUT", *([""] * 11), *sent, f"/{_ACCOUNT}/{_ACCOUNT}/{_CONTAINER}", "restype:container"))
    signature = base64.b64encode(hmac.digest(base64.b64decode(_KEY), signed.encode(), hashlib.sha256)).decode()
    headers |= {"Authorization": f"SharedKey {_ACCOUNT}:{signature}", "Content-Length": "0"}
    httpx.put(f"{address}/{_ACCOUNT}/{_CONTAINER}?restype=container", headers=headers, timeout=60).raise_for_status()
