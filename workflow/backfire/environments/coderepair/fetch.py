"""Fetching the published file of problems, whole and checked, or not at all."""

from __future__ import annotations

import hashlib
import http.client
import os
import tempfile
import urllib.request
from pathlib import Path

from backfire.errors import UserError

MBPP_URL = (
    "https://raw.githubusercontent.com/google-research/google-research/master/mbpp/"
    "sanitized-mbpp.json"
)
MBPP_SHA256 = "8ac32b2799150228e2d745aed09c870b7e4444246d4727d1004576207ef40769"

_CHUNK = 1 << 16
_TIMEOUT_SECONDS = 60.0
_MAX_BYTES = 64 << 20


def fetch_mbpp(url: str, sha256: str, destination: Path) -> None:
    """Download `url` to `destination`, which appears only when its checksum is right.

    Raises:
        UserError: the file cannot be had, or is another than the one expected.
    """
    elsewhere = "fetch it by other means and name it as the environment's `path`"
    destination.parent.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    descriptor, name = tempfile.mkstemp(prefix=f".{destination.name}.", dir=destination.parent)
    temporary = Path(name)
    try:
        with (
            os.fdopen(descriptor, "wb") as file,
            urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response,
        ):
            while chunk := response.read(_CHUNK):
                size += len(chunk)
                if size > _MAX_BYTES:
                    raise UserError(f"{url}: more than {_MAX_BYTES} bytes came; {elsewhere}")
                digest.update(chunk)
                file.write(chunk)
            promised = response.headers.get("Content-Length")
        if promised is not None and size != int(promised):
            raise UserError(f"{url}: broke off after {size} of {promised} bytes; try again")
        if digest.hexdigest() != sha256:
            raise UserError(
                f"{url}: sha256 is {digest.hexdigest()}, {sha256} is expected; {elsewhere}"
            )
        temporary.chmod(0o644)
        temporary.replace(destination)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UserError(f"{url}: cannot be fetched ({error}); {elsewhere}") from error
    finally:
        temporary.unlink(missing_ok=True)
