"""What a result was made with."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import version

PACKAGES = (
    "snakemake",
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "pandas",
    "pyarrow",
    "scipy",
    "statsmodels",
)


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """The versions of Python and of the packages that decide numbers."""
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
