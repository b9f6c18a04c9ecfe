"""Runs what the manifests of an overlay say, as processes of this machine, and
restarts its servers one after the other while the job runs.

  .venv-python/bin/python -m deploy.rehearse deploy/kustomize/overlays/cpu \\
      --documents docs --restarts 1

What stands in for a cluster: each pod has an address of its own (127.x.y.z), and
the names of pods become addresses; volumes become folders; $(NAME), field
references, probes, restart policies, SIGTERM and its grace are as Kubernetes has
them. Flags, variables and files are the manifests'. Certificates are made by
openssl. The exit status is 0 if every job ended well and each server stopped in
time, by itself, and with 0.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from deploy.manifests import Manifests, build, parse

PROGRAMS = {"cpfeed_server": "server/cpfeed_server", "cpfeed": "client/cli/cpfeed",
            "cpfeed_worker": "client/worker/cpfeed_worker"}


class Failure(Exception):
    """The rehearsal has failed."""


class Network:
    """Addresses of pods; a random part keeps rehearsals apart."""

    def __init__(self):
        self._prefix = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}"
        with socket.create_server(("", 0)) as free:
            self.rendezvous_port = str(free.getsockname()[1])

    def server(self, ordinal):
        """Ends in the ordinal, so that "{ordinal}" can stand in it."""
        return f"{self._prefix}.1{ordinal}"

    def place(self, pod, text):
        """`text` with addresses in place of names."""
        if pod.program == "cpfeed_server":
            return text
        return re.sub(r"\bcpfeed-(\d+|\{ordinal\})\.cpfeed\b",
                      lambda match: self.server(match[1]), text)


class Folders:
    """Volumes of pods, as folders."""

    def __init__(self, root, manifests, network, documents):
        self._root = pathlib.Path(root)
        self._manifests = manifests
        self._network = network
        self._documents = documents
        self._authority = None

    def mount(self, pod, name, address):
        """Folder by mount path."""
        volumes = {volume["name"]: volume for volume in pod.spec["volumes"]}
        mounts = {}
        for mount in pod.container["volumeMounts"]:
            volume = volumes[mount["name"]]
            if "emptyDir" in volume:
                continue  # /dev/shm is there.
            if "persistentVolumeClaim" in volume:
                mounts[mount["mountPath"]] = self._documents
                continue
            folder = self._root / name / mount["name"]
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            mounts[mount["mountPath"]] = str(folder)
            if "secret" in volume:
                self._issue(folder, volume["secret"]["secretName"], address)
        for mount in pod.container["volumeMounts"]:
            volume = volumes[mount["name"]]
            for file, text in self._manifests.volume_files(volume).items() if (
                    "configMap" in volume) else ():
                path = pathlib.Path(mounts[mount["mountPath"]], file)
                path.write_text(place(text, mounts, address), "utf-8")
        return mounts

    def _issue(self, folder, secret, address):
        """tls.crt, tls.key and ca.crt as cert-manager would make them."""
        certificate, = [item["spec"] for item in
                        self._manifests.of("Certificate")
                        if item["spec"]["secretName"] == secret]
        if self._authority is None:
            self._authority = self._root / "authority"
            self._authority.mkdir()
            openssl("req", "-x509", *KEY, "-days", "2", "-subj", "/CN=cpfeed-ca",
                    "-keyout", self._authority / "key", "-out",
                    self._authority / "crt")
        names = [f"DNS:{name}" for name in certificate.get("dnsNames", [])]
        names += [f"URI:{uri}" for uri in certificate.get("uris", [])]
        names.append(f"IP:{address}")
        (folder / "ext").write_text(f"subjectAltName={','.join(names)}\n")
        openssl("req", *KEY, "-subj", f"/CN={secret}", "-keyout",
                folder / "tls.key", "-out", folder / "csr")
        openssl("x509", "-req", "-in", folder / "csr", "-CA",
                self._authority / "crt", "-CAkey", self._authority / "key",
                "-CAcreateserial", "-days", "2", "-extfile", folder / "ext",
                "-out", folder / "tls.crt")
        shutil.copy(self._authority / "crt", folder / "ca.crt")


KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True,
                   capture_output=True, timeout=60)


def place(text, mounts, address):
    """`text` with folders in place of mount paths, and the pod's address."""
    for path in sorted(mounts, key=len, reverse=True):
        text = re.sub(rf"{re.escape(path)}(?=/|$)", mounts[path], text,
                      flags=re.M)
    return text.replace("0.0.0.0", address)


class Running:
    """One pod: its process, started again as its policy says."""

    def __init__(self, pod, index, bin_folder, folders, network):
        self.pod = pod
        self.name = f"{pod.name}-{index}"
        self.index = index
        self.restarts = 0
        self.status = None
        self.output = []  # Lines of the last start.
        self._bin = bin_folder
        self._network = network
        server = pod.program == "cpfeed_server"
        self.address = (network.server(index) if server else "127.0.0.1")
        self._mounts = folders.mount(pod, self.name, self.address)
        self._ended = False
        self.process = None
        self.errors = []
        self.start()

    def _value(self, entry, before):
        if "value" in entry:
            return self._expand(entry["value"], before)
        path = entry["valueFrom"]["fieldRef"]["fieldPath"]
        if not re.search(r"(completion|worker|group)-index'\]$", path):
            raise Failure(f"{self.pod}: {path} is unknown")
        return "0" if "group-index" in path else str(self.index)

    @staticmethod
    def _expand(text, before):
        return re.sub(r"\$\((\w+)\)",
                      lambda match: before.get(match[1], match[0]), text)

    def _environment(self):
        found = {}
        for entry in self.pod.container.get("env", []):
            found[entry["name"]] = self._value(entry, found)
        if "MASTER_ADDR" in found:
            # Served on every address of the machine, which has no eth0.
            found |= {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo",
                      "MASTER_PORT": self._network.rendezvous_port}
        return {name: self._place(value) for name, value in found.items()}

    def _place(self, text):
        return self._network.place(self.pod, place(text, self._mounts,
                                                   self.address))

    def start(self):
        """Starts the container."""
        environment = self._environment()
        args = [self._place(self._expand(argument, environment))
                for argument in self.pod.container.get("args", [])]
        self.output, self.errors = [], []
        self.status = None
        self.process = subprocess.Popen(
            [self._bin / PROGRAMS[self.pod.program], *args], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], **environment})
        readers = [
            threading.Thread(target=into.extend, args=(stream,), daemon=True)
            for into, stream in ((self.output, self.process.stdout),
                                 (self.errors, self.process.stderr))]
        for reader in readers:
            reader.start()
        threading.Thread(target=self._wait, args=(self.process, readers),
                         daemon=True).start()

    def _wait(self, process, readers):
        status = process.wait()
        for reader in readers:
            reader.join()
        again = self.pod.spec.get("restartPolicy", "Always")
        if self._ended or again == "Never" or (
                again == "OnFailure" and status == 0):
            self.status = status
            return
        self.restarts += 1
        time.sleep(min(0.2 * 2**self.restarts, 3))
        if not self._ended:
            self.start()

    def end(self, number=15):
        """No more starts; the signal, and after the grace SIGKILL. Returns
        whether it went by itself."""
        self._ended = True
        self.process.send_signal(number)
        try:
            self.process.wait(self.pod.spec.get("terminationGracePeriodSeconds",
                                                30))
            return True
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False

    def probe(self, kind):
        """Whether the kubelet's probe succeeds."""
        asked = self.pod.container[kind]["grpc"]
        with grpc.insecure_channel(f"{self.address}:{asked['port']}") as channel:
            try:
                answer = health_pb2_grpc.HealthStub(channel).Check(
                    health_pb2.HealthCheckRequest(service=asked["service"]),
                    timeout=self.pod.container[kind].get("timeoutSeconds", 1))
            except grpc.RpcError:
                return False
        return answer.status == health_pb2.HealthCheckResponse.SERVING

    def become_ready(self):
        """As the kubelet waits: startup first."""
        for kind in ("startupProbe", "readinessProbe"):
            told = self.pod.container[kind]
            deadline = time.monotonic() + 60 * told["periodSeconds"]
            while not self.probe(kind):
                if self.process.poll() is not None or (
                        time.monotonic() > deadline):
                    raise Failure(f"{self.name}: {kind} does not succeed: "
                                  + "".join(self.errors[-3:]))
                time.sleep(min(told["periodSeconds"], 0.2))


class Rehearsal:
    """All pods of an overlay."""

    def __init__(self, text, bin_folder, documents, root, say=print):
        self.manifests = Manifests(parse(text))
        self.network = Network()
        self._bin = pathlib.Path(bin_folder).absolute()
        self._folders = Folders(root, self.manifests, self.network, documents)
        self._say = say
        self.servers, self.jobs = [], []

    def _run(self, pod, index):
        return Running(pod, index, self._bin, self._folders, self.network)

    def start(self):
        """Servers, and when they are ready the rest."""
        pod, = self.manifests.servers()
        self.servers = [self._run(pod, index) for index in range(pod.count)]
        for server in self.servers:
            server.become_ready()
            self._say(f"{server.name} is ready")
        self.jobs = [self._run(pod, index)
                     for pod in (*self.manifests.loaders(),
                                 *self.manifests.workers())
                     for index in range(pod.count)]

    def leaders(self):
        """The workers that print steps: each group's first."""
        size = len([job for job in self.jobs
                    if job.pod.program == "cpfeed_worker"])
        mesh = self.manifests.workers()[0].env.get("CPFEED_MESH", "")
        ranks = int((re.search(r"cp=(\d+)", mesh) or [0, size])[1])
        return [job for job in self.jobs if job.index % ranks == 0 and
                job.pod.program == "cpfeed_worker"]

    def wait_for_steps(self, count, timeout=120):
        """Until each group has done `count` steps."""
        deadline = time.monotonic() + timeout
        while any(len(steps_of(leader)) < count for leader in self.leaders()):
            if time.monotonic() > deadline:
                raise Failure(f"no {count} steps within {timeout} s: "
                              + self._last_words())
            time.sleep(0.02)

    def restart(self, number=15):
        """A rolling restart: the highest ordinal first, one at a time."""
        for server in reversed(self.servers):
            begin = time.monotonic()
            if not server.end(number):
                raise Failure(f"{server.name}: still there after its grace")
            status = server.process.returncode
            if number == 15 and status != 0:
                raise Failure(f"{server.name}: exit status {status}: "
                              + "".join(server.errors[-3:]))
            self._say(f"{server.name} went within "
                      f"{time.monotonic() - begin:.1f} s")
            again = self._run(server.pod, server.index)
            self.servers[server.index] = again
            again.become_ready()
            if not again.probe("livenessProbe"):
                raise Failure(f"{again.name}: not alive")
            self._say(f"{again.name} is ready again")

    def finish(self, timeout=300):
        """Waits for all jobs; the steps of each group, in order."""
        deadline = time.monotonic() + timeout
        while any(job.status is None for job in self.jobs):
            self._check_jobs()
            if time.monotonic() > deadline:
                raise Failure(f"jobs are not done within {timeout} s: "
                              + self._last_words())
            time.sleep(0.05)
        self._check_jobs()
        return [steps_of(leader) for leader in self.leaders()]

    def _check_jobs(self):
        for job in self.jobs:
            if job.status:
                raise Failure(f"{job.name}: exit status {job.status}: "
                              + "".join(job.errors[-3:]))

    def _last_words(self):
        return "; ".join(f"{job.name} (started {job.restarts + 1} times, "
                         f"status {job.status}): {''.join(job.errors[-2:])}"
                         for job in self.jobs)

    def stop(self):
        """Ends whatever runs."""
        for running in (*self.jobs, *self.servers):
            if running.process.poll() is None:
                running.end(9)


def steps_of(leader):
    """Numbers of the steps that a worker has printed since it started."""
    lines = [json.loads(line) for line in list(leader.output)
             if line.startswith("{")]
    return [line["step"] for line in lines if "step" in line]


def main():
    parser = argparse.ArgumentParser(
        prog="deploy.rehearse", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overlay", help="folder of a kustomization")
    parser.add_argument("--documents", required=True, metavar="DIR",
                        help="what the claim of that name holds")
    parser.add_argument("--bin", default="bazel-bin", metavar="DIR",
                        help="where the programs are")
    parser.add_argument("--kubectl", default=".venv-python/bin/kubectl")
    parser.add_argument("--restarts", type=int, default=1, metavar="N",
                        help="rolling restarts while the job runs")
    parser.add_argument("--kill", action="store_true",
                        help="by SIGKILL in place of SIGTERM")
    args = parser.parse_args()
    # So that nothing stays behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="cpfeed-rehearsal-") as root:
        rehearsal = Rehearsal(build(args.kubectl, args.overlay), args.bin,
                              os.path.abspath(args.documents), root)
        try:
            rehearsal.start()
            for number in range(args.restarts):
                rehearsal.wait_for_steps(2 * number + 2)
                rehearsal.restart(9 if args.kill else 15)
            groups = rehearsal.finish()
        except Failure as failure:
            print(f"rehearsal: {failure}", file=sys.stderr)
            return 1
        finally:
            rehearsal.stop()
    for number, steps in enumerate(groups):
        if steps != list(range(len(steps))):
            print(f"rehearsal: group {number} had steps {steps}",
                  file=sys.stderr)
            return 1
    again = sum(job.restarts for job in rehearsal.jobs)
    print(f"OK: {args.restarts} rolling restarts, "
          f"{' and '.join(str(len(steps)) for steps in groups)} steps, "
          f"{again} containers started again")
    return 0


if __name__ == "__main__":
    sys.exit(main())
