"""A seccomp filter that refuses what a program under repair has no need of, as BPF bytes.

Refused with EPERM: starting processes and threads, sockets, signals to others, tracing,
other processes' memory, namespaces and mounts, System V IPC, changes of modes, owners, times
and attributes of files, and the newer interfaces that would get round such a list (io_uring,
pidfd). All else is let through; what a program can
do with files is the business of the mount namespace or of Landlock.
"""

from __future__ import annotations

import errno
import platform
import struct
from typing import NamedTuple


class _Machine(NamedTuple):
    audit: int  # AUDIT_ARCH_*
    refused: tuple[int, ...]
    limits: tuple[int, ...]  # setrlimit, prlimit64
    execute: tuple[int, ...]  # execve, execveat


_ALIKE = (424, 425, 434, 438, 452, 463, 466)
"""pidfd_send_signal io_uring_setup pidfd_open pidfd_getfd fchmodat2 setxattrat removexattrat"""

_CLONE3 = 435

_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        # socket socketpair clone fork vfork kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo
        # ptrace process_vm_readv process_vm_writev unshare setns mount umount2 pivot_root chroot
        # bpf userfaultfd perf_event_open shmget msgget semget mq_open add_key request_key keyctl
        # open_by_handle_at, and what changes files that cannot be opened: chmod fchmod fchmodat
        # chown fchown lchown fchownat utime utimes futimesat utimensat setxattr lsetxattr
        # fsetxattr removexattr lremovexattr fremovexattr
        (
            *(41, 53, 56, 57, 58, 62, 200, 234, 129, 297, 101, 310, 311, 272, 308, 165, 166, 155),
            *(161, 321, 323, 298, 29, 68, 64, 240, 248, 249, 250, 304, 90, 91, 268, 92, 93, 94),
            *(260, 132, 235, 261, 280, 188, 189, 190, 197, 198, 199),
            *_ALIKE,
        ),
        (160, 302),
        (59, 322),
    ),
    "aarch64": _Machine(
        0xC00000B7,
        # the same, in the same order, as far as this machine has them
        (
            *(198, 199, 220, 129, 130, 131, 138, 240, 117, 270, 271, 97, 268, 40, 39, 41, 51),
            *(280, 282, 241, 194, 186, 190, 180, 217, 218, 219, 265, 52, 53, 55, 54, 88),
            *(5, 6, 7, 14, 15, 16),
            *_ALIKE,
        ),
        (164, 261),
        (221, 281),
    ),
}

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _AUDIT = 0, 4  # offsets in struct seccomp_data
_X32 = 0x40000000


def filter_bytes(*, settled: bool) -> bytes | None:
    """The filter for this machine, or None where its system call numbers are not known.

    Args:
        settled: the process has set its limits and will execute nothing more, so that these
            calls are refused too.
    """
    machine = _MACHINES.get(platform.machine())
    if platform.system() != "Linux" or machine is None:
        return None
    refused = machine.refused + (machine.limits + machine.execute if settled else ())
    # A jump's two distances count the instructions skipped where the test holds and where
    # it does not. Every refusal jumps to the last instruction.
    code = [
        (_LOAD, 0, 0, _AUDIT),
        (_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
        # As if the kernel had no clone3: the C library then uses clone, which is refused.
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
    ]
    for left, number in zip(range(len(refused), 0, -1), refused, strict=True):
        code.append((_EQUAL, left, 0, number))
    code += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERROR | errno.EPERM)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)
