"""Every overlay builds, is valid, and fits together and to the programs; and
the checks find what they are for."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import kubernetes_validate
import yaml

from tests.deploy import rules
from deploy.manifests import Manifests, build, flags_in, parse

KUBECTL = "../python/kubectl"
OVERLAYS = sorted(path.parent.name for path in
                  pathlib.Path("deploy/kustomize/overlays").glob("*/*.yaml"))
KUBERNETES = ["1.29", "1.34"]


class Binary:
    """What a program's help speaks of."""

    def __init__(self, *command):
        help_text = subprocess.run([*command, "--help"], capture_output=True,
                                   text=True, timeout=60).stdout
        self._words = set(re.findall(r"\w+", help_text))
        self._flags = set(re.findall(r"--(\w+)", help_text))
        # As Abseil writes them.
        self.defaults = {
            name: value.strip('"') for name, value in re.findall(
                r"--(\w+) \((?:[^;]|;(?!\s+default))*;\s+default: (\S+);",
                help_text)}

    def has_flag(self, name):
        return name in self._flags or (
            name.startswith("no") and name[2:] in self._flags)

    def has_word(self, name):
        return name in self._words


class Both:
    """A program and its sub-command."""

    def __init__(self, *binaries):
        self._binaries = binaries

    def has_flag(self, name):
        return any(binary.has_flag(name) for binary in self._binaries)

    def has_word(self, name):
        return any(binary.has_word(name) for binary in self._binaries)


def validate(item, version=KUBERNETES[-1]):
    """What the schemas of Kubernetes say; "" for nothing."""
    try:
        kubernetes_validate.validate(item, version, strict=True)
    except (kubernetes_validate.ValidationError,
            kubernetes_validate.SchemaNotFoundError) as error:
        return f"{version}: {error.message}"
    return ""


class Deployment(unittest.TestCase):
    """Of a copy of deploy/, whose files are files and not links."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.deploy = pathlib.Path(folder.name, "deploy")
        shutil.copytree("deploy", cls.deploy)
        cls.binaries = {
            "cpfeed_server": Binary("server/cpfeed_server"),
            "cpfeed_worker": Binary("client/worker/cpfeed_worker"),
            "cpfeed": Both(Binary("client/cli/cpfeed"),
                           Binary("client/cli/cpfeed", "feed"))}
        cls.texts = {name: cls.build(name) for name in OVERLAYS}

    @classmethod
    def build(cls, overlay):
        return build(KUBECTL, cls.deploy / "kustomize/overlays" / overlay)

    def built(self, overlay):
        return parse(self.texts[overlay])

    def errors(self, objects):
        manifests = Manifests(objects)
        found = list(rules.foreign_kinds(manifests, validate))
        for rule in rules.RULES:
            found += rule(manifests, self.binaries)
        return found


class ManifestsTest(Deployment):
    """The overlays as they are."""

    def test_overlays_are_valid_and_fit_together(self):
        self.assertEqual(OVERLAYS, ["cpu", "gpu", "ha", "hardened", "jobset",
                                    "lws", "monitoring", "mtls"])
        for overlay in OVERLAYS:
            with self.subTest(overlay):
                objects = self.built(overlay)
                self.assertEqual(self.errors(objects), [])
                for version in KUBERNETES:
                    self.assertEqual(list(rules.foreign_kinds(
                        Manifests(objects),
                        lambda item, at=version: validate(item, at))), [])
                manifests = Manifests(objects)
                self.assertEqual(len(manifests.servers()), 1)
                self.assertEqual(len(manifests.workers()), 1)
                self.assertEqual(len(manifests.loaders()), 1)

    def test_overlays_have_what_they_are_named_for(self):
        def pods(overlay):
            return Manifests(self.built(overlay))

        gpu = pods("gpu").workers()[0].container["resources"]["limits"]
        self.assertEqual(gpu["nvidia.com/gpu"], "1")
        worker, = pods("gpu").workers()
        self.assertEqual(pods("gpu").flags(worker)["device"], "cuda")
        self.assertEqual(pods("ha").servers()[0].count, 2)
        self.assertEqual(pods("jobset").workers()[0].kind, "JobSet")
        self.assertEqual(pods("lws").workers()[0].kind, "LeaderWorkerSet")
        maps = {item["metadata"]["name"]: item["data"]
                for item in pods("monitoring").of("ConfigMap")}
        rules_file = pathlib.Path("deploy/monitoring/alerts.yml")
        self.assertEqual(maps["cpfeed-alerts"]["alerts.yml"],
                         rules_file.read_text(encoding="utf-8"))
        for overlay in ["mtls", "hardened"]:
            server = pods(overlay).servers()[0]
            self.assertIn("tls_client_ca", pods(overlay).flags(server))
        for item in self.built("hardened"):
            if item["kind"] != "Namespace":
                self.assertEqual(item["metadata"]["namespace"], "cpfeed")

    def files(self, name):
        """Those of the ConfigMap whose name begins so."""
        return next(item["data"] for item in self.built("cpu")
                    if item["kind"] == "ConfigMap" and
                    item["metadata"]["name"].startswith(name))

    def run_with(self, text, *command):
        """Exit status and errors of a command with {} for a file of `text`."""
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            done = subprocess.run(
                [part.format(file.name) for part in command],
                capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    def test_server_takes_its_flag_files(self):
        command = ["server/cpfeed_server", "--flagfile={}", "--version"]
        for text in self.files("cpfeed-server").values():
            self.assertEqual(self.run_with(text, *command), (0, ""))
        status, error = self.run_with("--nonsense=1\n", *command)
        self.assertEqual(status, 1)
        self.assertIn("nonsense", error)
        self.assertEqual(self.binaries["cpfeed_server"].defaults["drain_budget"],
                         "30s")
        self.assertEqual(flags_in("# a\n--b=c\n\n--d\n"), {"b": "c", "d": ""})

    def test_loader_takes_its_options(self):
        command = ["client/cli/cpfeed", "--config={}", "feed", "--session=a",
                   "--server=127.0.0.1:1", "/none"]
        text = self.files("cpfeed-session")["session.toml"]
        # Read before it is found that there are no documents.
        status, error = self.run_with(text, *command)
        self.assertEqual((status, error), (2, "cpfeed feed: cannot open /none: "
                                           "No such file or directory\n"))
        status, error = self.run_with(text.replace("shuffle", "shuffled"),
                                      *command)
        self.assertEqual(status, 2)
        self.assertIn("feed.shuffled", error)
        status, error = self.run_with(
            text.replace('"BALANCED"', '"UNBALANCED"'), *command[:-1],
            "--create", "deploy/kustomize")
        self.assertEqual(status, 2)
        self.assertIn("UNBALANCED", error)


# Overlay, what is replaced in its built text, by what, what is found.
MUTATIONS = [
    ("unknown_field", "cpu", "subdomain: cpfeed-worker",
     "subdomane: cpfeed-worker", "subdomane"),
    ("unknown_field_of_jobset", "jobset", "maxRestarts", "maxRestart",
     "maxRestart"),
    ("unknown_field_of_lws", "lws", "startupPolicy", "startPolicy",
     "startPolicy"),
    ("unknown_field_of_certificate", "mtls", "isCA", "isAuthority",
     "isAuthority"),
    ("own_selector", "cpu", "matchLabels:\n      app.kubernetes.io/name: "
     "cpfeed-server\n  serviceName", "matchLabels:\n      app.kubernetes.io/"
     "name: server\n  serviceName", "is not of its own pods"),
    ("service_selector", "cpu", "selector:\n    app.kubernetes.io/name: "
     "cpfeed-server", "selector:\n    app.kubernetes.io/name: server",
     "Service cpfeed: selects no pod"),
    ("policy_of_other_pods", "hardened", 'cpfeed.dev/client: "true"\n  '
     "policyTypes", 'cpfeed.dev/client: "yes"\n  policyTypes',
     "NetworkPolicy cpfeed-clients: selects no pod"),
    ("spread", "ha", "app.kubernetes.io/name: cpfeed-server\n        maxSkew",
     "app.kubernetes.io/name: cpfeed-worker\n        maxSkew", "spread of"),
    ("target_port", "cpu", "targetPort: grpc", "targetPort: http",
     "has no port http"),
    ("headless_port", "cpu", "port: 8470\n    targetPort", "port: 80\n    "
     "targetPort", "Service cpfeed: port 80; must be 8470"),
    ("policy_port", "cpu", "- port: grpc", "- port: grcp", "has no port grcp"),
    ("nothing_listens", "cpu", "--probe_listen=0.0.0.0:8471",
     "--probe_listen=0.0.0.0:8472", "nothing listens on its port probe"),
    ("probe_port", "cpu", "--probe_listen=0.0.0.0:8471",
     "--probe_listen=0.0.0.0:8472", "livenessProbe asks port 8471; must be "
     "8472"),
    ("probe_on_loopback", "cpu", "--probe_listen=0.0.0.0:8471",
     "--probe_listen=127.0.0.1:8471", "does not reach"),
    ("probe_name", "cpu", "service: readiness", "service: liveness",
     "readinessProbe asks for 'liveness'"),
    ("probe_missing", "cpu", "livenessProbe:", "lifecycle:",
     "there is no livenessProbe"),
    ("config_map", "cpu", r"name: cpfeed-server-\w+\n *name: flags",
     "name: cpfeed\n        name: flags", "there is no ConfigMap cpfeed"),
    ("secret", "mtls", "secretName: cpfeed-worker-tls\n  u",
     "secretName: cpfeed-rank-tls\n  u",
     "there is no Certificate for Secret cpfeed-worker-tls"),
    ("claim", "cpu", "claimName: documents", "claimName: docs",
     "there is no claim docs"),
    ("mount", "cpu", "mountPath: /etc/cpfeed\n          name: flags",
     "mountPath: /etc/flags\n          name: flags",
     "there is no /etc/cpfeed/listen.flags"),
    ("mount_name", "cpu", "mountPath: /dev/shm\n          name: shm",
     "mountPath: /dev/shm\n          name: shared", "mounts"),
    ("flag_of_server", "cpu", "--drain_delay=5s", "--drain_delay=5s\n    "
     "--drain_pause=5s", "cpfeed_server has no flag --drain_pause"),
    ("flag_of_worker", "cpu", "--exchange=planned", "--exchanges=planned",
     "cpfeed_worker has no flag --exchanges"),
    ("option_of_session", "cpu", "shuffle = true", "shuffled = true",
     "cpfeed has no flag --shuffled"),
    ("variable", "cpu", "name: CPFEED_JOB", "name: CPFEED_JOBS",
     "knows no variable CPFEED_JOBS"),
    ("reference", "cpu", "name: GROUP", "name: GROUPS",
     "uses \\$\\(GROUP\\), which is not set"),
    ("reference_order", "lws", r"( *- name: GROUP\n(?:.*\n){3})"
     r"( *- name: RANK\n(?:.*\n){5})", r"\2\1", "which is not before it"),
    ("namespace", "hardened", "namespace: cpfeed\nspec:\n  backoffLimit: 40",
     "namespace: other\nspec:\n  backoffLimit: 40",
     "Job cpfeed-worker: is in namespace other"),
    ("image_version", "cpu", "cpfeed/server:0.1.0", "cpfeed/server:latest",
     "has no version"),
    ("image_unknown", "cpu", "cpfeed/worker:0.1.0", "cpfeed/trainer:0.1.0",
     "nobody knows"),
    ("memory_limit", "cpu", "--memory_budget=4294967296",
     "--memory_budget=5368709120", "memory limit is 6442450944"),
    ("memory_streams", "cpu", "--max_streams=256", "--max_streams=1024",
     "memory limit is 6442450944"),
    ("memory_session", "cpu", "--session_memory_budget=1073741824",
     "--session_memory_budget=5368709120", "above that of all"),
    ("memory_request", "cpu", "cpu: \"2\"\n            memory: 6Gi",
     "cpu: \"2\"\n            memory: 5Gi", "asked for is not its limit"),
    ("grace", "cpu", "terminationGracePeriodSeconds: 90",
     "terminationGracePeriodSeconds: 65", "must be above 65"),
    ("disruption", "cpu", "maxUnavailable: 1", "minAvailable: 1",
     "no PodDisruptionBudget"),
    ("metrics_port", "monitoring", "--metrics_listen=0.0.0.0:9470",
     "--metrics_listen=0.0.0.0:9471", "Prometheus is sent to port 9470"),
    ("replicas", "ha", "name: CPFEED_REPLICAS\n          value: \"2\"",
     "name: CPFEED_REPLICAS\n          value: \"1\"",
     "CPFEED_REPLICAS is 1; must be 2"),
    ("mesh", "ha", "dp=2,cp=2", "dp=2,cp=4", "4 pods, WORLD_SIZE 4"),
    ("world_size", "cpu", "name: WORLD_SIZE\n          value: \"4\"",
     "name: WORLD_SIZE\n          value: \"8\"", "4 pods, WORLD_SIZE 8"),
    ("session_size", "cpu", "cp_size = 4", "cp_size = 2",
     "4 ranks read a session of cp_size 2"),
    ("session_name", "cpu", "--session=train-", "--session=job-",
     "fed is job-dp"),
    ("loaders", "ha", "completions: 2", "completions: 1",
     "2 groups and 1 loaders"),
    ("server_name", "cpu", "dns:///cpfeed-{ordinal}.cpfeed:8470",
     "dns:///cpfeed.cpfeed:8470", "calls dns:///cpfeed.cpfeed:8470"),
    ("server_port", "cpu", "dns:///cpfeed-{ordinal}.cpfeed:8470",
     "dns:///cpfeed-{ordinal}.cpfeed:8471", "must be dns:///cpfeed-#"),
    ("tls_at_one_end", "mtls", "name: CPFEED_TLS_CA", "name: CPFEED_TLS_CERTS",
     "TLS at one end"),
    ("master_address", "cpu", "cpfeed-worker-0.cpfeed-worker",
     "cpfeed-worker.cpfeed-worker", "MASTER_ADDR is"),
    ("master_address_of_jobset", "jobset", "cpfeed-worker-ranks-0-0",
     "cpfeed-worker-0-0", "MASTER_ADDR is"),
    ("not_ready_addresses", "cpu", "publishNotReadyAddresses: true",
     "publishNotReadyAddresses: false", "before they are ready"),
    ("rank", "cpu", "name: RANK", "name: NCCL_RANK", "has no RANK"),
    ("shared_memory", "cpu", "medium: Memory", 'medium: ""',
     "too little for NCCL"),
    ("insecure", "cpu", "--insecure_listen", "", "must ask who calls"),
    ("certificate_name", "ha_mtls", "- cpfeed-1.cpfeed\n", "",
     "not for cpfeed-1.cpfeed"),
    ("principal", "hardened", '"san": "spiffe://cpfeed/worker"',
     '"san": "spiffe://cpfeed/rank"', "nobody has a certificate"),
    ("roles", "hardened", '"roles": \\["worker"\\]', '"roles": ["rank"]',
     "are no roles"),
    ("root", "cpu", "runAsNonRoot: true", "runAsNonRoot: false",
     "runs as root"),
    ("writable", "cpu", "readOnlyRootFilesystem: true",
     "readOnlyRootFilesystem: false", "may write to its root"),
    ("capabilities", "cpu", "- ALL", "- NET_RAW", "has capabilities"),
    ("account", "cpu", "serviceAccountName: cpfeed",
     "serviceAccountName: other", "no ServiceAccount other"),
]

AUTOSCALER = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: cpfeed
spec:
  maxReplicas: 4
  scaleTargetRef:
    apiVersion: apps/v1
    kind: StatefulSet
    name: cpfeed
"""


class CheckerTest(Deployment):
    """Each rule finds what it is for."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        both = cls.deploy / "kustomize/overlays/ha_mtls"
        both.mkdir()
        text = (both.parent / "ha/kustomization.yaml").read_text("utf-8")
        (both / "kustomization.yaml").write_text(
            text.replace("components/ha", "components/ha\n"
                         "  - ../../components/mtls"), "utf-8")
        cls.texts["ha_mtls"] = cls.build("ha_mtls")

    def test_two_components_go_together(self):
        self.assertEqual(self.errors(self.built("ha_mtls")), [])

    def test_autoscaler_is_refused(self):
        found = self.errors(self.built("cpu") + [yaml.safe_load(AUTOSCALER)])
        self.assertEqual(len(found), 1, found)
        self.assertIn("fixed replicas", found[0])

    def test_what_does_not_build_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "no such file|must build"):
            build(KUBECTL, self.deploy / "kustomize/none")


def _mutation(overlay, old, new, message):
    def test(self):
        plain = re.escape(old) if "\\" not in old else old
        text, count = re.subn(plain, new, self.texts[overlay])
        self.assertGreater(count, 0, "nothing to change")
        found = self.errors(parse(text))
        self.assertTrue(
            any(re.search(message if "\\" in message else re.escape(message),
                          error) for error in found),
            f"not found: {message}\n" + "\n".join(found))
    return test


for _name, *_change in MUTATIONS:
    setattr(CheckerTest, f"test_finds_{_name}", _mutation(*_change))


if __name__ == "__main__":
    unittest.main()
