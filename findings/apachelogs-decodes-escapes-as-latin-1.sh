#!/usr/bin/env bash
# apachelogs 0.6.1 turns the escapes that httpd writes for bytes beyond ASCII into characters of Latin-1, one for each byte, also
# where the bytes are UTF-8, as browsers send them. Seen: the request "GET /caf\xc3\xa9 HTTP/1.1" is read as /cafÃ©, not /café.
# Exits with 1 if the behaviour is another one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check apachelogs==0.6.1
"$work/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

from apachelogs import COMBINED, LogParser

line = r'192.0.2.7 - - [01/Nov/2026:08:00:00 +0000] "GET /caf\xc3\xa9 HTTP/1.1" 200 5 "-" "curl/8.5"'
request = LogParser(COMBINED).parse(line).request_line
print("apachelogs", version("apachelogs"), "reads", request)
raise SystemExit(request != "GET /caf\u00c3\u00a9 HTTP/1.1")
PYTHON
