"""A web service as a user would write it: one process of T threads, which notes when an item is finished."""

from __future__ import annotations

SOURCE = """\
import os, queue, signal, socketserver, sys, threading, time
from http.server import BaseHTTPRequestHandler

port, n_threads = int(sys.argv[1]), int(os.environ["TUNER_THREADS"])
told = os.open(f"truth-1x{n_threads}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        time.sleep(0.005)
        os.write(told, b"%.6f\\n" % time.monotonic())
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


class Server(socketserver.TCPServer):
    allow_reuse_address = True
    request_queue_size = 256


def work():
    while True:
        connection, address = accepted.get()
        try:
            Handler(connection, address, server)
        except OSError:
            pass
        finally:
            connection.close()


accepted = queue.SimpleQueue()
server = Server(("127.0.0.1", port), Handler)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
for _ in range(n_threads):
    threading.Thread(target=work, daemon=True).start()
while True:
    accepted.put(server.get_request())
"""
