"""What kustomize builds of an overlay, as objects and pods."""

import dataclasses
import re
import subprocess
import tomllib

import yaml

# Container images and the program that each starts where the pod names none.
PROGRAMS = {"server": "cpfeed_server", "worker": "cpfeed_worker",
            "worker-cuda": "cpfeed_worker"}


def build(kubectl, folder):
    """The objects of a kustomization, as text.

    Raises:
      ValueError: it does not build.
    """
    done = subprocess.run([kubectl, "kustomize", folder], capture_output=True,
                          text=True, timeout=60)
    if done.returncode:
        raise ValueError(done.stderr)
    return done.stdout


def parse(text):
    """The objects of a text."""
    return [item for item in yaml.safe_load_all(text) if item]


@dataclasses.dataclass
class Pod:
    """The pods of one workload, which has one container.

    Attributes:
      kind, name: of the workload.
      count: how many pods there are.
      template: metadata and spec.
    """

    kind: str
    name: str
    count: int
    template: dict
    owner: dict

    def __str__(self):
        return f"{self.kind} {self.name}"

    @property
    def spec(self):
        return self.template["spec"]

    @property
    def labels(self):
        return self.template["metadata"].get("labels", {})

    @property
    def container(self):
        return self.spec["containers"][0]

    @property
    def image(self):
        """Its last part, without the tag."""
        return self.container["image"].rsplit("/", 1)[-1].split(":")[0]

    @property
    def program(self):
        command = self.container.get("command")
        return command[0] if command else PROGRAMS.get(self.image, "")

    @property
    def ports(self):
        """Number by name."""
        return {port["name"]: port["containerPort"]
                for port in self.container.get("ports", [])}

    @property
    def env(self):
        """Value by name, in order; a reference where a field is meant."""
        return {entry["name"]: entry.get("value", entry.get("valueFrom"))
                for entry in self.container.get("env", [])}


def _pod(item):
    spec, kind, name = item.get("spec", {}), item["kind"], item["metadata"]["name"]
    if kind in ("StatefulSet", "Deployment"):
        return Pod(kind, name, spec.get("replicas", 1), spec["template"], item)
    if kind == "Job":
        return Pod(kind, name, spec.get("completions", 1), spec["template"],
                   item)
    if kind == "JobSet":
        jobs = spec["replicatedJobs"][0]
        job = jobs["template"]["spec"]
        return Pod(kind, name, jobs["replicas"] * job["completions"],
                   job["template"], item)
    if kind == "LeaderWorkerSet":
        group = spec["leaderWorkerTemplate"]
        return Pod(kind, name, spec["replicas"] * group["size"],
                   group["workerTemplate"], item)
    return None


class Manifests:
    """Objects by kind, and their pods."""

    def __init__(self, objects):
        self.objects = objects
        self.pods = [pod for pod in map(_pod, objects) if pod]

    def of(self, *kinds):
        return [item for item in self.objects if item["kind"] in kinds]

    def named(self, kind, name):
        return next((item for item in self.of(kind)
                     if item["metadata"]["name"] == name), None)

    def selected(self, labels):
        """The pods with all these labels; all of them for none."""
        return [pod for pod in self.pods
                if (labels or {}).items() <= pod.labels.items()]

    def servers(self):
        return [pod for pod in self.pods if pod.program == "cpfeed_server"]

    def workers(self):
        return [pod for pod in self.pods if pod.program == "cpfeed_worker"]

    def loaders(self):
        return [pod for pod in self.pods if pod.program == "cpfeed"]

    def volume_files(self, volume):
        """Text by file name; None for each of a secret; None for folders."""
        if "configMap" in volume:
            item = self.named("ConfigMap", volume["configMap"]["name"])
            return (item or {}).get("data", {})
        if "secret" in volume:
            return dict.fromkeys(["tls.crt", "tls.key", "ca.crt"])
        return None

    def file(self, pod, path):
        """(whether it is there, its text or None) for a path in the pod."""
        folder, _, name = path.rpartition("/")
        for mount in pod.container.get("volumeMounts", []):
            if mount["mountPath"] == folder:
                volume = next((v for v in pod.spec.get("volumes", [])
                               if v["name"] == mount["name"]), {})
                files = self.volume_files(volume)
                if files is not None and name in files:
                    return True, files[name]
        return False, None

    def flags(self, pod):
        """Value by flag, out of the arguments and the files they name."""
        found = {}
        for argument in pod.container.get("args", []):
            if not argument.startswith("--"):
                continue
            name, _, value = argument[2:].partition("=")
            if name == "flagfile":
                for path in value.split(","):
                    text = self.file(pod, path)[1] or ""
                    found.update(flags_in(text))
            elif name == "config":
                text = self.file(pod, value)[1] or ""
                for section in tomllib.loads(text).values():
                    found.update({key: str(val)
                                  for key, val in section.items()})
            else:
                found[name] = value
        return found


def flags_in(text):
    """The flags of a flag file."""
    lines = (line.strip() for line in text.splitlines())
    parts = (line[2:].partition("=") for line in lines
             if line.startswith("--"))
    return {name: value for name, _, value in parts}


def quantity(text):
    """Bytes of "6Gi"."""
    number, unit = re.fullmatch(r"(\d+)([KMG]i)?", str(text)).groups()
    return int(number) * {None: 1, "Ki": 2**10, "Mi": 2**20,
                          "Gi": 2**30}[unit]


def seconds(text):
    """Seconds of "1m30s"."""
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(float(number) * units[unit]
               for number, unit in re.findall(r"([\d.]+)([hms])", text))
