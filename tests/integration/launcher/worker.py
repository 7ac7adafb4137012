"""A worker that does what its first argument names; every behaviour a launcher has to cope with."""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time

MARK = "TUNER_DRIVEN"  #: what the tests find a driver and all its descendants by


def wait(threads="1"):
    """A worker as it should be: so many threads, ends at TERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    for _ in range(int(threads) - 1):
        threading.Thread(target=ended.wait).start()
    ended.wait()


def calculate():
    """As `wait`, with a numeric library that starts threads of its own."""
    import numpy as np

    left = np.ones((256, 256))
    left @ left  # it has started them by now
    wait()


def die(code, *words):
    sys.stdout.write("\n".join(words) + "\n")
    sys.exit(int(code))


def signalled(number):
    os.kill(os.getpid(), int(number))


def late(seconds, code):
    time.sleep(float(seconds))
    sys.stdout.write("too late\n")
    sys.exit(int(code))


def ends(go, code):
    """Ends so once the file *go* is there."""
    _await(go)
    sys.stdout.write("as told\n")
    sys.exit(int(code))


def stubborn(folder=None):
    """Ignores everything that can be ignored."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    if folder is not None:
        _note(folder, "ready")
    while True:
        time.sleep(60)


def family(pid_folder):
    """A stubborn worker with three relatives: in a group of its own, in a session of its own, a daemon
    without environment. Each writes its pid to the folder."""
    _note(pid_folder, "worker")
    _spawn(pid_folder, "group", process_group=0)
    _spawn(pid_folder, "session", start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            kept = {MARK: os.environ[MARK]}  # the marker of the tests only: not the launcher's
            os.execve(sys.executable, [sys.executable, __file__, "note", pid_folder, "daemon"], kept)
        os._exit(0)
    stubborn()


def works(folder, threads="1"):
    """Each thread starts a child per item, and writes the numbers of the items that are done. Ends at TERM
    once each item in hand is done."""
    ended = threading.Event()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # no other thread may get it

    def work(thread):
        with open(os.path.join(folder, f"items.{os.getpid()}.{thread}"), "w", buffering=1) as file:
            number = 0
            while not ended.is_set():
                subprocess.run(
                    ["/bin/sh", "-c", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done"], check=True
                )
                file.write(f"{number}\n")
                number += 1
            file.write("end\n")

    workers = [threading.Thread(target=work, args=(thread,)) for thread in range(int(threads))]
    for one in workers:
        one.start()
    signal.sigwait({signal.SIGTERM})
    ended.set()
    for one in workers:
        one.join()


def note(pid_folder, name):
    _note(pid_folder, name)
    stubborn()


def forgets(pid_folder, n_children, cpu_s):
    """Starts children one after the other that use so much CPU each, and ignores SIGCHLD: the kernel then
    adds what they used to nobody. Begins once there is a file ``go``, when somebody looks."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _await(os.path.join(pid_folder, "go"))
    for _ in range(int(n_children)):
        child = os.fork()
        if child == 0:
            while time.process_time() < float(cpu_s):
                pass
            os._exit(0)
        try:
            os.waitpid(child, 0)  # until it has ended; it is not there to be collected
        except ChildProcessError:
            continue
    _note(pid_folder, "forgotten")
    wait()


def chatty(n_bytes):
    """Logs so many bytes, not text, each time it gets USR1."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    os.write(1, b"ready\n")
    while True:
        signal.sigwait({signal.SIGUSR1})
        left = memoryview(os.urandom(int(n_bytes)))
        while left:
            left = left[os.write(1, left) :]


def devours(cgroup_procs):
    """Asks for more memory than its cgroup has, once it gets USR1."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    with open(cgroup_procs, "w") as file:
        file.write(str(os.getpid()))
    os.write(1, b"ready\n")
    signal.sigwait({signal.SIGUSR1})
    bytearray(b"x") * (1 << 30)


def forks(pid_folder):
    """A chain of short-lived processes, each the orphan of the one before. Ends by itself."""
    _note(pid_folder, "first")
    for _ in range(3000):
        if os.fork():
            os._exit(0)
        time.sleep(0.001)


def report(path, *_):
    """Say how it was started."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open("/proc/self/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
    words = {
        "argv": sys.argv[3:],
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "umask": os.umask(0),
        "cpus": sorted(os.sched_getaffinity(0)),
        "nofile": limit,
        "uid": os.getuid(),
        "groups": os.getgroups(),
        "files": {
            name: os.readlink(f"/proc/self/fd/{name}")
            for name in os.listdir("/proc/self/fd")
            if int(name) < 3
        },
        "n_files": _n_files(),
        "ignored": int(status["SigIgn"], 16),
        "death_signal": _death_signal(),
        "group_is_own": os.getpgrp() == os.getpid(),
    }
    part = f"{path}.{os.getpid()}"  # of a layout of several, each one writes the same
    with open(part, "w") as file:
        json.dump(words, file)
    os.rename(part, path)
    wait()


def _n_files():
    """Open files, but for the folder that is just read, and for the library that ctypes keeps open."""
    names = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sum(".so" not in os.readlink(name) for name in names if os.path.lexists(name))


def _death_signal():
    number = ctypes.c_int()
    ctypes.CDLL(None).prctl(2, ctypes.byref(number), 0, 0, 0)  # PR_GET_PDEATHSIG
    return number.value


def _await(path):
    while not os.path.exists(path):
        time.sleep(0.01)


def _note(folder, name):
    path = os.path.join(folder, f"{name}.{os.getpid()}")
    with open(path, "w"):
        pass


def _spawn(folder, name, **how):
    subprocess.Popen([sys.executable, __file__, "note", folder, name], **how)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
