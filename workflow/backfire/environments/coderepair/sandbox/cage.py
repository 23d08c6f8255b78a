"""What confines a program on this system: bubblewrap, else Landlock, else limits alone."""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from backfire.environments.coderepair.sandbox.seccomp import filter_bytes

Walls = Literal["bubblewrap", "landlock", "none"]

_ENVIRONMENT = {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "TZ": "UTC"}

_LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")


@dataclass(frozen=True)
class Cage:
    """How a program is kept in.

    Attributes:
        walls: what hides files, network and other processes. `bubblewrap`: new namespaces
            with the interpreter's files alone, read-only. `landlock`: file, TCP and signal
            rules. `none`: the limits and the process group only.
        seccomp: whether system calls are filtered.
    """

    walls: Walls
    seccomp: bool

    def command(self, seccomp_fd: int | None) -> list[str]:
        """What starts the interpreter inside the walls, up to its first own argument."""
        interpreter = str(Path(sys.executable).resolve())
        # -P and the missing site keep the interpreter to its standard library.
        python = [interpreter, "-s", "-S", "-B", "-P", "-X", "utf8"]
        if self.walls != "bubblewrap":
            return python
        command = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
        command += ["--cap-drop", "ALL"]
        for name, value in _ENVIRONMENT.items():
            command += ["--setenv", name, value]
        for path in dict.fromkeys(("/usr", *_LIBRARIES, *_interpreter_folders())):
            command += ["--ro-bind-try", path, path]
        command += ["--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp", "--remount-ro", "/"]
        if seccomp_fd is not None:
            command += ["--seccomp", str(seccomp_fd)]
        return [*command, "--", *python]

    def environment(self) -> dict[str, str]:
        """The environment of the command; nothing is inherited but the way to bubblewrap."""
        if self.walls == "bubblewrap":
            return {"PATH": os.environ.get("PATH", os.defpath)}
        return dict(_ENVIRONMENT)

    def confinement(self) -> dict[str, Any]:
        """What the process is to do to itself, in the terms of `child`."""
        inside = self.walls != "bubblewrap"
        readable = [*_LIBRARIES, *_DEVICES, *_interpreter_folders()]
        return {
            "landlock": readable if self.walls == "landlock" else None,
            "seccomp": filter_bytes(settled=True) if self.seccomp and inside else None,
            "root": inside and os.geteuid() == 0,
        }

    def outer_filter(self) -> bytes | None:
        """The filter that bubblewrap is to install, if it is."""
        if self.seccomp and self.walls == "bubblewrap":
            return filter_bytes(settled=False)
        return None


def _interpreter_folders() -> list[str]:
    """The folders that hold the interpreter, its libraries and its standard library."""
    stdlib = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    binaries = Path(sys.executable).resolve().parent
    return [str(binaries), *stdlib, f"{sys.base_exec_prefix}/lib"]


CAGES = (
    Cage("bubblewrap", True),
    Cage("bubblewrap", False),
    Cage("landlock", True),
    Cage("none", True),
    Cage("landlock", False),
    Cage("none", False),
)
"""From the strongest to the weakest."""
