"""kill -9 of a loader, a rank, the leader or the server, wherever it hurts: what
every rank has on its disk afterwards is, byte for byte, what it has after a run
that nobody disturbed."""

import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

SERVER = "server/cpfeed_server"
CLIENT = "tests/integration/fault_client"
RANKS = [(0, 0), (0, 1), (1, 0), (1, 1)]  # The first is the leader.
LOADERS = {"a": 12, "b": 12}

# Who dies, and where: the point and how often it is reached before. Messages of
# a loader's stream: open, then for each batch its header and 9 chunks.
FAULTS = [
    # The server, at what it reads from loaders and writes to them.
    ("server", "ingest_read:1"),    # open
    ("server", "ingest_read:3"),    # a first header
    ("server", "ingest_read:7"),    # inside a payload
    ("server", "ingest_read:60"),
    ("server", "ingest_write:1"),   # opened
    ("server", "ingest_write:4"),   # a receipt or credit
    ("server", "publish:1"),
    ("server", "publish:8"),
    # At what it reads from ranks and writes to them.
    ("server", "shard_read:2"),     # attach
    ("server", "shard_read:17"),    # acknowledgements and credit
    ("server", "shard_write:2"),    # attached
    ("server", "shard_write:30"),   # headers and chunks
    ("server", "shard_write:111"),
    ("loader", "client_write:1"),
    ("loader", "client_write:2"),
    ("loader", "client_write:6"),
    ("loader", "client_write:33"),
    ("loader", "client_read:1"),
    ("loader", "client_read:5"),
    ("rank", "client_write:1"),
    ("rank", "client_write:6"),
    ("rank", "client_read:1"),
    ("rank", "client_read:2"),      # a step's header
    ("rank", "client_read:4"),      # inside a step
    ("rank", "client_read:30"),
    ("leader", "client_write:1"),
    ("leader", "client_write:8"),
    ("leader", "client_read:3"),
    ("leader", "client_read:41"),
]


class Run:
    """A server, two loaders and four ranks. Whoever is killed is started again,
    as an orchestrator does, without the fault."""

    def __init__(self, folder, faults):
        self.folder = pathlib.Path(folder)
        self.faults = dict(faults)
        self.kills = 0
        self.processes = {}
        self.port = 0

    def start(self, name):
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        with self.log(name).open("a") as log:
            self.processes[name] = subprocess.Popen(self.command(name),
                                                    stderr=log)
        if name != "server":
            return
        deadline = time.monotonic() + 60
        while not port_file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.005)
        self.port = int(port_file.read_text())

    def log(self, name):
        return self.folder / f"{name}.log"

    def command(self, name):
        fault = self.faults.pop(name, None)
        if name == "server":
            return [SERVER, f"--listen=127.0.0.1:{self.port}",
                    f"--port_file={self.folder / 'port'}",
                    *([f"--fault_point={fault}"] if fault else [])]
        server = f"127.0.0.1:{self.port}"
        if name in LOADERS:
            words = ["loader", server, name, str(LOADERS[name])]
        else:
            words = ["rank", server, name[0], name[1],
                     str(self.folder / f"{name[0]}{name[1]}")]
        return [CLIENT, *words, *([fault] if fault else [])]

    def finish(self):
        """Returns what each rank has."""
        names = [*LOADERS, *(f"{rank}{consumer}" for rank, consumer in RANKS)]
        try:
            self.start("server")
            for name in names:
                self.start(name)
            deadline = time.monotonic() + 60
            # Each is looked at, also where another one is alive.
            while any([self.alive(name) for name in names]):
                self.alive("server")
                assert time.monotonic() < deadline, self.processes
                time.sleep(0.01)
        finally:
            for process in self.processes.values():
                process.kill()
                process.wait()
        return [(self.folder / f"{rank}{consumer}").read_bytes()
                for rank, consumer in RANKS]

    def alive(self, name):
        status = self.processes[name].poll()
        if status is None:
            return True
        if status == 0 and name != "server":
            return False
        assert status == -signal.SIGKILL, (
            name, status, self.log(name).read_text()[-2000:])
        self.kills += 1
        self.start(name)
        return True


class FaultTest(unittest.TestCase):
    """One run that nobody disturbs, and one for each fault."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            cls.undisturbed = Run(folder, []).finish()

    def run_with(self, faults, kills):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(folder, faults)
            self.assertEqual(run.finish(), self.undisturbed)
            self.assertEqual(run.kills, kills)

    def test_the_undisturbed_run_has_every_step_and_mark(self):
        for number, data in enumerate(self.undisturbed):
            steps = [int(n) for n in re.findall(rb"^step (\d+) \d+$", data,
                                                re.M)]
            self.assertEqual(steps, list(range(24)))
            self.assertEqual(
                re.findall(rb"^epoch (\d+) ends with (\d+)$", data, re.M),
                [(b"0", b"9"), (b"1", b"19")])
            self.assertTrue(data.endswith(b"end\n"))
            # Consumers of one rank have the same, ranks do not.
            self.assertEqual(data == self.undisturbed[0], number < 2)

    def test_server_and_leader_die_together(self):
        self.run_with([("server", "publish:9"), ("00", "client_read:60")], 2)


def test_of(who, point):
    """A test for one fault."""
    name = {"server": "server", "loader": "a", "rank": "10",
            "leader": "00"}[who]
    return lambda self: self.run_with([(name, point)], 1)


for who_dies, where in FAULTS:
    setattr(FaultTest, f"test_{who_dies}_dies_at_{where.replace(':', '_')}",
            test_of(who_dies, where))


if __name__ == "__main__":
    unittest.main()
