r"""What servers escape in a logged text, read back.

| writer                         | escapes                                                                   |
| ------------------------------ | ------------------------------------------------------------------------- |
| Apache                         | `\"`, `\\`, `\b`, `\n`, `\r`, `\t`, `\v`; other bytes that are not printable ASCII as `\xhh` |
| nginx, `escape=default`        | `"`, `\` and bytes below 32 or above 126 as `\xHH`                        |
| nginx, `escape=json`           | as in JSON: `\"`, `\\`, `\n`, `\r`, `\t`, `\b`, `\f`, `\u00HH`            |

Bytes that are not UTF-8 stay as they are written, such as `\xe9`: a client may send anything.
"""

import re
from typing import Final

_BYTES: Final = r"(?:\\x[0-9a-fA-F]{2})+"
_APACHE: Final = re.compile(rf"{_BYTES}|\\[\"\\bnrtv]")
_NGINX: Final = re.compile(_BYTES)
_JSON: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([\"\\/bfnrt]))")
_CONTROLS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def unescape_apache(text: str) -> str:
    """The text that Apache's httpd has logged so; `""` is an empty user."""
    return "" if text == '""' else _APACHE.sub(_apache, text)


def unescape_nginx(text: str) -> str:
    """The text that nginx has logged so with escape=default."""
    return _NGINX.sub(_bytes, text)


def unescape_json(text: str) -> str:
    """The text that nginx has logged so with escape=json."""
    return _JSON.sub(lambda match: chr(int(match[1], 16)) if match[1] else _CONTROLS.get(match[2], match[2]), text)


def _apache(match: re.Match[str]) -> str:
    character = match[0][1]
    return _bytes(match) if character == "x" else _CONTROLS.get(character, character)


def _bytes(match: re.Match[str]) -> str:
    written = bytes.fromhex(match[0].replace("\\x", ""))
    try:
        return written.decode()
    except UnicodeDecodeError:
        text = written.decode(errors="surrogateescape")
    place, result = 0, []
    for character in text:
        size = 1 if "\udc80" <= character <= "\udcff" else len(character.encode())
        result.append(match[0][4 * place : 4 * (place + 1)] if "\udc80" <= character <= "\udcff" else character)
        place += size
    return "".join(result)
