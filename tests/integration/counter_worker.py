"""A worker for the counter's tests, run by any interpreter from 3.8 on: it counts until it is killed.

Before it counts an item it appends a byte to a file that O_APPEND keeps whole: the truth to check against.
Thread or child number i writes the byte i for an item done, i + 128 for one that failed.

    counter_worker.py COUNTER_FILE FOLDER TRUTH threads|prefork N
"""

import importlib.util
import itertools
import os
import sys
import threading


def load(path):
    spec = importlib.util.spec_from_file_location("counter", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["counter"] = module
    spec.loader.exec_module(module)
    return module


def count_for_ever(slot, truth, number):
    for item in itertools.count():
        if item % 7 == 6:
            os.write(truth, bytes([number + 128]))
            slot.failed()
        else:
            os.write(truth, bytes([number]))
            slot.done()
        slot.add_stages(3, 2, 1)


def run_threads(counter, truth, n_threads):
    for number in range(n_threads):  # one after the other, so that slot i is thread i's
        taken = threading.Event()

        def body(number=number, taken=taken):
            slot = counter.slot()
            taken.set()
            count_for_ever(slot, truth, number)

        threading.Thread(target=body, daemon=True).start()
        taken.wait()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    threading.Event().wait()


def run_prefork(counter, truth, n_children):
    slot = counter.slot()
    for _ in range(3):
        slot.done()
    pids = []
    for number in range(n_children):
        pid = os.fork()
        if pid == 0:
            count_for_ever(slot, truth, number)  # the handle that was taken before the fork
        pids.append(pid)
    sys.stdout.write("ready {}\n".format(" ".join(map(str, pids))))
    sys.stdout.flush()
    os.waitpid(pids[0], 0)


def main():
    counter_file, folder, truth_path, mode, count = sys.argv[1:]
    counter = load(counter_file).open_counter(folder)
    truth = os.open(truth_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    {"threads": run_threads, "prefork": run_prefork}[mode](counter, truth, int(count))


if __name__ == "__main__":
    main()
