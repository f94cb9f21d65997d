"""What arbitrary code cannot do: a filter of system calls (seccomp) and of paths (Landlock), which cannot be removed.

From then on this process and its threads compute, use the socket that they have, and read files below some folders. They reach
no other file, open no socket, start no program or process, and signal no other process. Resource limits alone would not do: root
raises them, and a file or another process can be changed without a descriptor.
"""

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable, Sequence
from typing import Final

_SET_NO_NEW_PRIVILEGES: Final = 38
_SET_SECCOMP: Final = 22
_DIES_WITH_PARENT: Final = 1
_FILTER: Final = 2
_KILL_SIGNAL: Final = 9

_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERROR: Final = 0x00050000
_REFUSED: Final = _ERROR | 1
_UNKNOWN: Final = _ERROR | 38
_NUMBER_AT: Final = 0
_MACHINE_AT: Final = 4
_FIRST_ARGUMENT_AT: Final = 16

_THREAD: Final = 0x10000
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_DESCRIPTOR_FLAGS: Final = (1, 2, 3)
"""The allowed commands of fcntl: whether a descriptor survives exec, and how it was opened."""

_MACHINES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_NO_SUCH: Final = -1
_CALLS: Final = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "stat": (4, _NO_SUCH),
    "fstat": (5, 80),
    "lstat": (6, _NO_SUCH),
    "poll": (7, _NO_SUCH),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "pread64": (17, 67),
    "readv": (19, 65),
    "writev": (20, 66),
    "access": (21, _NO_SUCH),
    "select": (23, _NO_SUCH),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "mincore": (27, 232),
    "madvise": (28, 233),
    "nanosleep": (35, 101),
    "getpid": (39, 172),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "sendmsg": (46, 211),
    "recvmsg": (47, 212),
    "shutdown": (48, 210),
    "exit": (60, 93),
    "uname": (63, 160),
    "getcwd": (79, 17),
    "readlink": (89, _NO_SUCH),
    "getrusage": (98, 165),
    "sysinfo": (99, 179),
    "times": (100, 153),
    "getuid": (102, 174),
    "getgid": (104, 176),
    "geteuid": (107, 175),
    "getegid": (108, 177),
    "getppid": (110, 173),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "time": (201, _NO_SUCH),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "getdents64": (217, 61),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "newfstatat": (262, 79),
    "readlinkat": (267, 78),
    "faccessat": (269, 48),
    "pselect6": (270, 72),
    "ppoll": (271, 73),
    "set_robust_list": (273, 99),
    "getrandom": (318, 278),
    "membarrier": (324, 283),
    "statx": (332, 291),
    "rseq": (334, 293),
    "faccessat2": (439, 439),
}
"""The system calls that are allowed with any arguments, by name with their numbers on x86_64 and aarch64."""
_CLONE: Final = (56, 220)
_CLONE3: Final = (435, 435)
_FCNTL: Final = (72, 25)
_OPENAT: Final = (257, 56)

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_ASK_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_RIGHTS: Final = ((1, 13), (2, 14), (3, 15), (5, 16))
"""By version of Landlock how many rights over files it knows."""
_READ_FILE: Final = 1 << 2
_READ_FOLDER: Final = 1 << 3


class CannotConfine(Exception):
    """This system cannot confine code; the text says why."""


def confine(readable: Iterable[str], *, parent: int) -> None:
    """Restrict this process to computation, its socket and files below `readable`; it ends with its parent.

    Only for a process of one thread. Raises CannotConfine.
    """
    if not sys.platform.startswith("linux") or platform.machine() not in _MACHINES:
        raise CannotConfine(f"{sys.platform} on {platform.machine()} is not Linux on x86_64 or aarch64")
    kernel = ctypes.CDLL(None, use_errno=True)
    _call(kernel.prctl, "PR_SET_PDEATHSIG", _DIES_WITH_PARENT, _KILL_SIGNAL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    _call(kernel.prctl, "PR_SET_NO_NEW_PRIVS", _SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _hide_paths(kernel, readable)
    program = _program(*_MACHINES[platform.machine()])
    instructions = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(instructions))
    _call(kernel.prctl, "seccomp", _SET_SECCOMP, _FILTER, ctypes.c_char_p(header), 0, 0)


def _call(function: object, name: str, *arguments: object) -> int:
    found = function(*arguments)  # type: ignore[operator]  # a function of the C library
    if found < 0:
        raise CannotConfine(f"{name} fails: {os.strerror(ctypes.get_errno())}")
    return int(found)


def _hide_paths(kernel: ctypes.CDLL, readable: Iterable[str]) -> None:
    kernel.syscall.restype = ctypes.c_long
    version = _call(kernel.syscall, "Landlock", _CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)
    known = [rights for least, rights in _RIGHTS if version >= least][-1]
    handled = struct.pack("Q", (1 << known) - 1)
    rules = _call(kernel.syscall, "Landlock", _CREATE_RULESET, ctypes.c_char_p(handled), ctypes.c_size_t(len(handled)), 0)
    for path in readable:
        try:
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
        except OSError:
            continue  # there is nothing to read
        rule = struct.pack("=Qi", _READ_FILE | _READ_FOLDER, folder)
        _call(kernel.syscall, "Landlock", _ADD_RULE, rules, _PATH_BENEATH, ctypes.c_char_p(rule), 0)
        os.close(folder)
    _call(kernel.syscall, "Landlock", _RESTRICT_SELF, rules, 0)
    os.close(rules)


def _program(machine: int, column: int) -> bytes:
    """The filter: the instructions of classic BPF over `struct seccomp_data`."""

    def word(number: int) -> tuple[int, int, int, int]:
        return _LOAD, 0, 0, number

    def gives(what: int) -> tuple[int, int, int, int]:
        return _RETURN, 0, 0, what

    def only(call: int, argument: int, checks: Sequence[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
        """Of one system call: load an argument and check it; each check ends in a verdict."""
        return [(_EQUAL, 0, len(checks) + 1, call), word(_FIRST_ARGUMENT_AT + 8 * argument), *checks]

    flags = [(_EQUAL, len(_DESCRIPTOR_FLAGS) - number, 0, flag) for number, flag in enumerate(_DESCRIPTOR_FLAGS)]
    lines = [
        word(_MACHINE_AT),
        (_EQUAL, 1, 0, machine),
        gives(_KILL),
        word(_NUMBER_AT),
        *only(_CLONE[column], 0, [(_ANY_BIT, 0, 1, _THREAD), gives(_ALLOW), gives(_REFUSED)]),
        # The C library falls back to clone, whose flags the filter can check.
        (_EQUAL, 0, 1, _CLONE3[column]),
        gives(_UNKNOWN),
        *only(_OPENAT[column], 2, [(_ANY_BIT, 1, 0, _WRITES), gives(_ALLOW), gives(_REFUSED)]),
        *only(_FCNTL[column], 1, [*flags, gives(_REFUSED), gives(_ALLOW)]),
    ]
    for numbers in _CALLS.values():
        if numbers[column] != _NO_SUCH:
            lines += [(_EQUAL, 0, 1, numbers[column]), gives(_ALLOW)]
    lines.append(gives(_REFUSED))
    return b"".join(struct.pack("HBBI", *line) for line in lines)
