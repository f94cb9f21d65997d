"""The revision of a folder's files, where Git knows them."""

import subprocess
from pathlib import Path


def revision(folder: Path) -> str:
    """The commit that the folder's files are of, with `+` if some differ from it; empty without Git or outside a repository."""
    commit = _git(folder, "rev-parse", "--short=12", "HEAD")
    return f"{commit}+" if commit and _git(folder, "status", "--porcelain", "--", ".") else commit


def _git(folder: Path, *arguments: str) -> str:
    # The repository's own configuration starts nothing.
    command = ["git", "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - our own command
            command, cwd=folder, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
