"""The real server as a process, and the real grpcurl to call it."""

import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

SERVER = "server/cpfeed_server"
GRPCURL = "../python/grpcurl"

CODES = ["OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded",
         "NotFound", "AlreadyExists", "PermissionDenied", "ResourceExhausted",
         "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented",
         "Internal", "Unavailable", "DataLoss", "Unauthenticated"]


def until(look, seconds=30):
    """Looks again until the result is true, and returns it."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, f"still {seen!r}"
        time.sleep(0.01)
    return seen


class RealServer:
    """A server on free ports of loopback; `log` has what it said so far."""

    def __init__(self, *flags):
        self.process = subprocess.Popen(
            [SERVER, "--listen=127.0.0.1:0", *flags],
            stderr=subprocess.PIPE, text=True)
        self.log = []
        ready = threading.Event()
        self.reader = threading.Thread(target=self._read, args=(ready,))
        self.reader.start()
        if not ready.wait(60) or self.process.poll() is not None:
            self.stop()
            raise AssertionError("no server: " + "".join(self.log))
        self.ports = dict(re.findall(r"(\w+) port (\d+)", self.log[-1]))
        self.address = "127.0.0.1:" + self.ports["data"]

    def _read(self, ready):
        for line in self.process.stderr:
            self.log.append(line)
            if "serving on" in line:
                ready.set()
        ready.set()

    def stop(self, number=signal.SIGTERM):
        """Stops it if it runs; returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(timeout=60)
        self.reader.join()
        self.process.stderr.close()
        return status

    def get(self, listener, path, method="GET"):
        """Status and text of a page of an HTTP listener."""
        url = f"http://127.0.0.1:{self.ports[listener]}{path}"
        request = urllib.request.Request(url, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metrics(self):
        """Values by "name{label="value",...}", as /metrics has them."""
        status, text = self.get("metrics", "/metrics")
        assert status == 200, text
        return {name: float(value) for name, value in re.findall(
            r"^([^#\s]\S*(?:\{.*\})?) (\S+)$", text, re.M)}

    def call(self, method, data, *flags, plaintext=True):
        """Code, answer or error text of a unary call."""
        done = subprocess.run(
            [GRPCURL, *(["-plaintext"] if plaintext else []),
             "-max-time", "20", "-d", json.dumps(data), *flags, self.address,
             method],
            capture_output=True, text=True, timeout=60,
            env={**os.environ, "NO_COLOR": "1"})
        if done.returncode == 0:
            return "OK", json.loads(done.stdout or "{}")
        if done.returncode < 64:
            return "failed", done.stderr
        return CODES[done.returncode - 64], done.stderr
