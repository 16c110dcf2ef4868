"""A server of files on loopback that knows ranges, and can lie, stall, end early, send elsewhere and change its files: for tests alone.

    with Server(folder) as server:
        server.mode = "stall"
        server.url("data.h5")

It counts the requests and the bytes of files that it sent. `mode` is a name of MODES; `after` requests are answered honestly first, and if `once` is set the
request after that is the only one that is not.
"""

import http.server
import os
import re
import socket
import ssl
import threading

MODES = {
    "honest": "ranges, lengths and tags as they are",
    "bits": "one bit of every kibibyte that is sent is flipped, from byte `where[0]` to `where[1]` of the file",
    "whole": "no ranges: 200 and the whole file",
    "endless": "no ranges: 200 and bytes without an end",
    "stall": "half of the range, and then nothing",
    "silent": "no answer at all",
    "drip": "a byte a second",
    "early": "half of the range, and the end of the connection",
    "reset": "the connection is reset before an answer",
    "length": "the file is a kibibyte longer",
    "tag": "the file has another entity tag",
    "elsewhere": "another range than the one that was asked for",
    "liar": "the range that was asked for by name, and the bytes before it",
    "more": "more bytes than were asked for",
    "less": "a range that ends before the one that was asked for",
    "junk": "no HTTP",
    "unknown": "a Content-Range without a length",
    "gone": "404",
    "forbidden": "403",
    "busy": "503",
    "empty": "416",
    "moved": "a redirect to `to`",
    "circle": "a redirect to itself",
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)  # what is counted as sent has nearly been taken
        super().setup()

    def log_message(self, *words):
        pass

    def do_GET(self):
        shared = self.server.shared
        try:
            self.answer(shared, shared.next_mode())
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    def plain(self, status, *headers):
        self.send_response(status)
        for name, value in (("Content-Length", "0"), *headers):
            self.send_header(name, value)
        self.end_headers()

    def stop(self):
        self.close_connection = True
        self.server.shared.closing.wait(60)

    def answer(self, shared, mode):
        path = os.path.join(shared.folder, *self.path.removeprefix("/here").split("/"))
        shared.paths.append(self.path)
        shared.sent_headers.append(dict(self.headers))
        statuses = {"gone": 404, "forbidden": 403, "busy": 503, "empty": 416}
        if mode in statuses or not os.path.isfile(path):
            return self.plain(statuses.get(mode, 404))
        if mode == "moved":
            return self.plain(302, ("Location", shared.to))
        if mode == "circle":
            return self.plain(307, ("Location", self.path))
        if mode == "silent":
            return self.stop()
        if mode == "junk":
            self.close_connection = True
            return self.wfile.write(b"\x00\xff" * 500)
        if mode == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.close_connection = True
            return self.connection.close()
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if mode == "endless":
            self.send_response(200)
            self.end_headers()
            self.close_connection = True
            while not shared.closing.is_set():
                self.wfile.write(bytes(65536))
                shared.bytes += 65536
        if mode == "whole" or not asked:
            with open(path, "rb") as file:
                content = file.read()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            for first in range(0, len(content), 65536):
                self.wfile.write(content[first:first + 65536])
                shared.bytes += 65536
            return None
        return self.part(shared, mode, path, int(asked[1]), int(asked[2]))

    def part(self, shared, mode, path, first, last):
        size = os.path.getsize(path)
        last = min(last, size - 1)
        size += 1024 if mode == "length" else 0
        if mode in ("elsewhere", "liar") and first >= 1024:
            first, last = first - 1024, last - 1024
        if mode == "less":
            last = first + (last - first) // 2
        with open(path, "rb") as file:
            file.seek(first)
            body = file.read(last + 1 - first)
        if mode == "bits":
            body = bytes(byte ^ (shared.where[0] <= first + i < shared.where[1] and (first + i) % 1024 == 7) for i, byte in enumerate(body))
        stated = first + 1024 if mode == "liar" and first >= 1024 else first
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {stated}-{stated + last - first}/{'*' if mode == 'unknown' else size}")
        if shared.tag:
            self.send_header("ETag", '"other"' if mode == "tag" else shared.tag)
        self.send_header("Content-Length", str(len(body) + (1024 if mode == "more" else 0)))
        self.end_headers()
        sent = {"stall": len(body) // 2, "early": len(body) // 2, "drip": 0}.get(mode, len(body))
        shared.bytes += sent  # before the client has them, and may end
        self.wfile.write(body[:sent])
        if mode == "more":
            self.wfile.write(bytes(1024))
        if mode == "drip":
            for byte in body:
                self.wfile.write(bytes([byte]))
                if shared.closing.wait(1):
                    break
        if mode == "stall":
            self.stop()
        if mode in ("early", "drip"):
            self.close_connection = True


class Http(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, address):
        """A client may refuse the certificate, or go."""


class Server:
    """`certificate`: a file with a key and its certificate, for https."""

    def __init__(self, folder, certificate=None):
        self.folder, self.closing, self.lock = folder, threading.Event(), threading.Lock()
        self.reset()
        self.http = Http(("127.0.0.1", 0), Handler)
        self.http.shared = self
        self.scheme = "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True, do_handshake_on_connect=False)
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def reset(self, mode="honest", after=0, once=False, where=(0, 0), to="", tag='"one"'):
        self.mode, self.after, self.once, self.where, self.to, self.tag = mode, after, once, where, to, tag
        self.requests = self.bytes = 0
        self.paths, self.sent_headers = [], []

    def next_mode(self):
        with self.lock:
            self.requests += 1
            turn = self.requests - self.after
            return self.mode if turn == 1 or (turn > 1 and not self.once) else "honest"

    @property
    def origin(self):
        return f"{self.scheme}://127.0.0.1:{self.http.server_address[1]}"

    def url(self, name):
        return f"{self.origin}/{name}"

    def close(self):
        self.closing.set()
        self.http.shutdown()
        self.http.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()
