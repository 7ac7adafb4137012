"""Becomes another program behind a filter of system calls: ``ERRNO CALL,CALL,... PROGRAM ARGUMENT...``.

Every call that is not named fails with that error, as systemd has it for a list that allows.
"""

from __future__ import annotations

import ctypes
import os
import sys

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NO_NEW_PRIVILEGES = 38


def seal(error: int, calls: list[str]) -> None:
    libseccomp = ctypes.CDLL("libseccomp.so.2")
    libseccomp.seccomp_init.restype = ctypes.c_void_p
    add = libseccomp.seccomp_rule_add_array
    add.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p]
    libseccomp.seccomp_load.argtypes = [ctypes.c_void_p]
    rules = libseccomp.seccomp_init(_ERRNO | error)
    for name in calls:
        number = libseccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # below: a call of other machines
            assert add(rules, _ALLOW, number, 0, None) == 0, name
    assert ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    assert libseccomp.seccomp_load(rules) == 0


if __name__ == "__main__":
    seal(int(sys.argv[1]), sys.argv[2].split(","))
    os.execv(sys.argv[3], sys.argv[3:])
