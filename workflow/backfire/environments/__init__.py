"""The environments that probe items come from.

An environment is a package here whose `pool` module has

    build_pool(settings, seed) -> Pool

To add one, write the package and name it in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from backfire.environments.base import Pool


def _own_file(settings: Mapping[str, Any]) -> list[str]:
    return [settings["path"]] if "path" in settings else []


def _problems(settings: Mapping[str, Any]) -> list[str]:
    from backfire.environments.coderepair.tasks import problems_file

    return [str(problems_file(settings))]


@dataclass(frozen=True)
class Kind:
    """A kind of environment, as `kind:` in the config names it.

    `package` is imported when a pool is asked for, so that one kind's needs are no other's.
    `required` and `optional` are the keys of its entry in the config, beside those of all kinds;
    `files` are what a pool is built from besides the code.
    """

    name: str
    summary: str
    package: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    files: Callable[[Mapping[str, Any]], list[str]] = _own_file

    def build_pool(self, settings: Mapping[str, Any], seed: int) -> Pool:
        """The pool of an environment of this kind.

        Args:
            settings: the environment's own entry in the config.
            seed: the study's seed.
        """
        pool = import_module(f"{self.package}.pool").build_pool(settings, seed)
        assert isinstance(pool, Pool)
        return pool


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "toolshed",
            "a simulated office workspace behind twelve typed tools",
            "backfire.environments.toolshed",
        ),
        Kind(
            "items",
            "a pool of your own, from a JSON Lines or Parquet file",
            "backfire.environments.items",
            required=("path",),
        ),
        Kind(
            "coderepair",
            "repair of small Python programs, which are run in a sandbox",
            "backfire.environments.coderepair",
            required=("problems",),
            optional=("path",),
            files=_problems,
        ),
        # The next kind goes here.
    )
}
