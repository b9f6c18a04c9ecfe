"""What must hold between the objects of an overlay, and with the programs.

Each rule yields what is wrong, as text.
"""

import json
import re

import jsonschema

from deploy.manifests import quantity, seconds

_MIB = 1 << 20
# Of libraries in the worker's image.
_LIBRARY_ENV = re.compile(r"NCCL_[A-Z_]+")
# Volumes that the user brings.
_CLAIMS = {"documents"}
_PROBES = {"startupProbe": "startup", "livenessProbe": "liveness",
           "readinessProbe": "readiness"}
_ROLES = {"loader", "worker", "controller", "operator"}

# The parts in use of kinds that Kubernetes does not bring.
_TEXT, _COUNT, _YES = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}


def _object(required=(), **properties):
    return {"type": "object", "additionalProperties": False,
            "required": list(required), "properties": properties}


_ANYTHING = {"type": "object"}
_ISSUER = _object(["name", "kind"], name=_TEXT, kind={"enum": ["Issuer"]})
_SPECS = {
    ("cert-manager.io/v1", "Issuer"): _object(
        selfSigned=_object(), ca=_object(["secretName"], secretName=_TEXT)),
    ("cert-manager.io/v1", "Certificate"): _object(
        ["secretName", "issuerRef"], secretName=_TEXT, commonName=_TEXT,
        isCA=_YES, duration={"type": "string", "pattern": r"^\d+h$"},
        issuerRef=_ISSUER,
        dnsNames={"type": "array", "items": _TEXT},
        uris={"type": "array", "items": {"pattern": "^spiffe://"}},
        usages={"type": "array",
                "items": {"enum": ["server auth", "client auth"]}},
        privateKey=_object(["algorithm"], algorithm={"enum": ["ECDSA"]},
                           size={"enum": [256]},
                           rotationPolicy={"enum": ["Always", "Never"]})),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): _object(
        ["replicatedJobs"], failurePolicy=_object(maxRestarts=_COUNT),
        network=_object(enableDNSHostnames=_YES, publishNotReadyAddresses=_YES,
                        subdomain=_TEXT),
        replicatedJobs={"type": "array", "items": _object(
            ["name", "replicas", "template"], name=_TEXT, replicas=_COUNT,
            template=_object(["spec"], spec=_object(
                ["template"], completionMode={"enum": ["Indexed"]},
                completions=_COUNT, parallelism=_COUNT, backoffLimit=_COUNT,
                template=_ANYTHING)))}),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): _object(
        ["leaderWorkerTemplate"], replicas=_COUNT,
        startupPolicy={"enum": ["LeaderCreated", "LeaderReady"]},
        leaderWorkerTemplate=_object(
            ["size", "workerTemplate"], size=_COUNT, workerTemplate=_ANYTHING,
            restartPolicy={"enum": ["RecreateGroupOnPodRestart", "None"]})),
}


def foreign_kinds(manifests, validate):
    """Strict schemas; `validate(object)` gives what Kubernetes' one says, None
    where it has none."""
    for item in manifests.objects:
        where = f"{item['kind']} {item['metadata']['name']}"
        key = (item["apiVersion"], item["kind"])
        if key in _SPECS:
            for error in jsonschema.Draft202012Validator(
                    _SPECS[key]).iter_errors(item["spec"]):
                yield f"{where}: {error.message}"
            continue
        error = validate(item)
        if error:
            yield f"{where}: {error}"
    # Templates inside foreign kinds, as a kind that Kubernetes knows.
    for pod in manifests.pods:
        error = validate({"apiVersion": "v1", "kind": "PodTemplate",
                          "metadata": {"name": pod.name},
                          "template": pod.template})
        if error:
            yield f"{pod}: {error}"


def selectors(manifests, _):
    """Select something, and a set's own pods."""
    for pod in manifests.pods:
        own = pod.owner["spec"].get("selector", {}).get("matchLabels", {})
        if not own.items() <= pod.labels.items():
            yield f"{pod}: selector {own} is not of its own pods"
        for spread in pod.spec.get("topologySpreadConstraints", []):
            labels = spread["labelSelector"]["matchLabels"]
            if not labels.items() <= pod.labels.items():
                yield f"{pod}: spread of {labels}, which are other pods"
    for item in manifests.of("Service", "PodDisruptionBudget", "NetworkPolicy"):
        for labels in _selected_labels(item["spec"]):
            if not manifests.selected(labels):
                yield (f"{item['kind']} {item['metadata']['name']}: selects no "
                       f"pod by {labels}")


def _selected_labels(spec):
    if "podSelector" in spec:
        yield spec["podSelector"].get("matchLabels")
        for rule in spec.get("ingress", []) + spec.get("egress", []):
            for peer in rule.get("from", []) + rule.get("to", []):
                # Pods of other namespaces are not ours to know.
                if "podSelector" in peer and "namespaceSelector" not in peer:
                    yield peer["podSelector"].get("matchLabels")
    else:
        selector = spec.get("selector", {})
        yield selector.get("matchLabels", selector)


def ports(manifests, _):
    """Named ports exist; a headless service has the pod's own number; what a
    pod says that it listens on, it does."""
    for item in manifests.of("Service"):
        for port in item["spec"]["ports"]:
            for pod in manifests.selected(item["spec"]["selector"]):
                where = f"Service {item['metadata']['name']}"
                number = pod.ports.get(port["targetPort"])
                if number is None:
                    yield f"{where}: {pod} has no port {port['targetPort']}"
                elif (item["spec"].get("clusterIP") == "None" and
                      port["port"] != number):
                    yield (f"{where}: port {port['port']}; must be {number}, as "
                           "clients reach the pod itself")
    for item in manifests.of("NetworkPolicy"):
        yield from _policy_ports(manifests, item)
    for pod in manifests.pods:
        listening = {value.rpartition(":")[2] for name, value
                     in manifests.flags(pod).items() if name.endswith("listen")}
        listening.add(pod.env.get("MASTER_PORT"))
        for name, number in pod.ports.items():
            if str(number) not in listening:
                yield f"{pod}: nothing listens on its port {name}, {number}"


def _policy_ports(manifests, item):
    spec, name = item["spec"], item["metadata"]["name"]
    rules = [(rule, spec["podSelector"]) for rule in spec.get("ingress", [])]
    rules += [(rule, peer["podSelector"]) for rule in spec.get("egress", [])
              for peer in rule.get("to", []) if "namespaceSelector" not in peer]
    for rule, selector in rules:
        for port in rule.get("ports", []):
            for pod in manifests.selected(selector.get("matchLabels")):
                if port["port"] not in [*pod.ports, *pod.ports.values()]:
                    yield (f"NetworkPolicy {name}: {pod} has no port "
                           f"{port['port']}")


def volumes(manifests, _):
    """Each is there, and mounted; files that are named are in them."""
    made = {item["spec"]["secretName"] for item in manifests.of("Certificate")}
    for pod in manifests.pods:
        there = {volume["name"] for volume in pod.spec.get("volumes", [])}
        mounted = {mount["name"]
                   for mount in pod.container.get("volumeMounts", [])}
        if there != mounted:
            yield f"{pod}: volumes {sorted(there)}, mounts {sorted(mounted)}"
        for volume in pod.spec.get("volumes", []):
            yield from (f"{pod}: {error}" for error in
                        _source(manifests, volume, made))
        named = list(manifests.flags(pod).values()) + list(pod.env.values())
        for argument in pod.container.get("args", []):
            named += argument.partition("=")[2].split(",")
        for path in named:
            if str(path).startswith("/etc/") and not manifests.file(pod, path)[0]:
                yield f"{pod}: there is no {path}"


def _source(manifests, volume, secrets):
    if "configMap" in volume:
        name = volume["configMap"]["name"]
        if not manifests.named("ConfigMap", name):
            yield f"there is no ConfigMap {name}"
    elif "secret" in volume:
        name = volume["secret"]["secretName"]
        if name not in secrets:
            yield f"there is no Certificate for Secret {name}"
    elif "persistentVolumeClaim" in volume:
        name = volume["persistentVolumeClaim"]["claimName"]
        if name not in _CLAIMS:
            yield f"there is no claim {name}"


def programs(manifests, binaries):
    """Images are pinned, and every flag and variable is the program's."""
    for pod in manifests.pods:
        tag = pod.container["image"].rpartition(":")[2]
        if not re.fullmatch(r"\d+\.\d+\.\d+", tag):
            yield f"{pod}: image {pod.container['image']} has no version"
        if pod.program not in binaries:
            yield f"{pod}: nobody knows what {pod.container['image']} starts"
            continue
        known = binaries[pod.program]
        args = pod.container.get("args", [])
        given = {a[2:].partition("=")[0] for a in args if a.startswith("--")}
        for flag in sorted(given | set(manifests.flags(pod))):
            if flag != "flagfile" and not known.has_flag(flag):
                yield f"{pod}: {pod.program} has no flag --{flag}"
        used = set(re.findall(r"\$\((\w+)\)",
                              " ".join([*args, *map(str, pod.env.values())])))
        for name in pod.env:
            if not (known.has_word(name) or name in used or
                    _LIBRARY_ENV.fullmatch(name)):
                yield f"{pod}: {pod.program} knows no variable {name}"
        yield from _references(pod, args)


def _references(pod, args):
    """$(NAME) is replaced by what stands before it, or stays as it is."""
    before = set()
    for name, value in pod.env.items():
        for used in re.findall(r"\$\((\w+)\)", str(value)):
            if used not in before:
                yield f"{pod}: {name} uses $({used}), which is not before it"
        before.add(name)
    for used in re.findall(r"\$\((\w+)\)", " ".join(args)):
        if used not in before:
            yield f"{pod}: an argument uses $({used}), which is not set"


def namespaces(manifests, _):
    """Where one is made, everything is in it."""
    for space in manifests.of("Namespace"):
        for item in manifests.objects:
            name = item["metadata"].get("namespace")
            if item is not space and name != space["metadata"]["name"]:
                yield (f"{item['kind']} {item['metadata']['name']}: is in "
                       f"namespace {name}")


def _server_flags(manifests, pod, binaries):
    return {**binaries["cpfeed_server"].defaults, **manifests.flags(pod)}


def memory(manifests, binaries):
    """Requests are limits; a server's limit holds what it may take."""
    for pod in manifests.pods:
        resources = pod.container["resources"]
        limit = resources["limits"]["memory"]
        if resources["requests"]["memory"] != limit:
            yield f"{pod}: memory asked for is not its limit"
    for pod in manifests.servers():
        flags = _server_flags(manifests, pod, binaries)
        budget = int(flags["memory_budget"])
        need = budget + 4 * _MIB * int(flags["max_streams"]) + 200 * _MIB
        limit = quantity(pod.container["resources"]["limits"]["memory"])
        if limit < need:
            yield f"{pod}: memory limit is {limit}; must be at least {need}"
        if int(flags["session_memory_budget"]) > budget:
            yield f"{pod}: a session's budget is above that of all"


def stopping(manifests, binaries):
    """The kubelet's patience is longer than a drain; one pod at a time goes."""
    for pod in manifests.servers():
        flags = _server_flags(manifests, pod, binaries)
        drain = seconds(flags["drain_delay"]) + seconds(flags["drain_budget"])
        grace = pod.spec["terminationGracePeriodSeconds"]
        if grace <= drain:
            yield (f"{pod}: terminationGracePeriodSeconds is {grace}; must be "
                   f"above {drain:g}")
        budgets = [item["spec"] for item in manifests.of("PodDisruptionBudget")]
        if not any(item.get("maxUnavailable") == 1 for item in budgets):
            yield f"{pod}: there is no PodDisruptionBudget of maxUnavailable 1"
    for item in manifests.of("HorizontalPodAutoscaler"):
        yield (f"HorizontalPodAutoscaler {item['metadata']['name']}: sessions "
               "live on fixed replicas")


def probes(manifests, _):
    """All three are there, ask the probe listener, and for the right thing."""
    for pod in manifests.servers():
        listen = manifests.flags(pod).get("probe_listen", "")
        port = listen.rpartition(":")[2]
        if not listen.startswith("0.0.0.0:"):
            yield f"{pod}: the kubelet does not reach --probe_listen={listen}"
        for kind, service in _PROBES.items():
            probe = pod.container.get(kind, {}).get("grpc")
            if probe is None:
                yield f"{pod}: there is no {kind} by gRPC"
                continue
            if str(probe["port"]) != port:
                yield (f"{pod}: {kind} asks port {probe['port']}; must be "
                       f"{port}, of --probe_listen")
            if probe["service"] != service:
                yield f"{pod}: {kind} asks for {probe['service']!r}"


def metrics(manifests, _):
    """Prometheus is sent to where they are."""
    for pod in manifests.servers():
        notes = pod.template["metadata"].get("annotations", {})
        told = notes.get("prometheus.io/port")
        listen = manifests.flags(pod).get("metrics_listen", "")
        if (told or "") != listen.rpartition(":")[2]:
            yield (f"{pod}: Prometheus is sent to port {told}, metrics are on "
                   f"{listen or 'none'}")


def topology(manifests, _):
    """Ranks, groups, loaders, servers and the session agree."""
    for server in manifests.servers():
        for loader in manifests.loaders():
            yield from _loader(manifests, loader, server)
        for worker in manifests.workers():
            yield from _worker(manifests, worker, server)


def _loader(manifests, loader, server):
    flags = manifests.flags(loader)
    if loader.count > server.count:
        yield (f"{loader}: {loader.count} groups name servers by their number; "
               f"there are {server.count}")
    yield from _address(manifests, loader, server, flags["server"])


def _worker(manifests, worker, server):
    env = worker.env
    loader, = manifests.loaders()
    session = manifests.flags(loader)
    cp_size = int(session["cp_size"])
    if worker.kind == "LeaderWorkerSet":
        groups = worker.owner["spec"]["replicas"]
        ranks = worker.count // groups
        name = env["CPFEED_SESSION"]
    else:
        mesh = dict(part.split("=") for part in env["CPFEED_MESH"].split(","))
        groups, ranks = int(mesh["dp"]), int(mesh["cp"])
        name = env.get("CPFEED_JOB", "") + "-dp$(GROUP)"
        if env["CPFEED_REPLICAS"] != str(server.count):
            yield (f"{worker}: CPFEED_REPLICAS is {env['CPFEED_REPLICAS']}; "
                   f"must be {server.count}")
        if int(env["WORLD_SIZE"]) != worker.count or (
                groups * ranks != worker.count):
            yield (f"{worker}: {worker.count} pods, WORLD_SIZE "
                   f"{env['WORLD_SIZE']}, CPFEED_MESH {env['CPFEED_MESH']}")
    if ranks != cp_size:
        yield f"{worker}: {ranks} ranks read a session of cp_size {cp_size}"
    if groups != loader.count:
        yield f"{worker}: {groups} groups and {loader.count} loaders"
    if name != session["session"]:
        yield f"{worker}: reads {name}; fed is {session['session']}"
    yield from _address(manifests, worker, server, env["CPFEED_SERVER"])
    yield from _rendezvous(manifests, worker)


def _address(manifests, client, server, address):
    port = manifests.flags(server).get("listen", "").rpartition(":")[2]
    name = f"{server.name}-#.{server.owner['spec']['serviceName']}"
    wanted = f"dns:///{name}:{port}"
    if re.sub(r"\{ordinal\}|\$\(GROUP\)", "#", address) != wanted:
        yield f"{client}: calls {address}; must be {wanted}"
    ends = {"CPFEED_TLS_CA" in client.env,
            "tls_cert" in manifests.flags(server)}
    if len(ends) == 2:
        yield f"{client}: TLS at one end"


def _rendezvous(manifests, worker):
    env, spec = worker.env, worker.owner["spec"]
    if worker.kind == "Job":
        subdomain, host = worker.spec.get("subdomain"), f"{worker.name}-0"
        service = manifests.named("Service", subdomain)
        if not service or service["spec"].get("clusterIP") != "None" or (
                not service["spec"].get("publishNotReadyAddresses")):
            yield (f"{worker}: there is no headless Service {subdomain} that "
                   "knows pods before they are ready")
    elif worker.kind == "JobSet":
        subdomain = spec["network"]["subdomain"]
        host = f"{worker.name}-{spec['replicatedJobs'][0]['name']}-0-0"
    else:
        subdomain, host = worker.name, f"{worker.name}-$(GROUP)"
    if env["MASTER_ADDR"] != f"{host}.{subdomain}":
        yield (f"{worker}: MASTER_ADDR is {env['MASTER_ADDR']}; must be "
               f"{host}.{subdomain}")
    if "RANK" not in env:
        yield f"{worker}: has no RANK"
    shm = [v for v in worker.spec["volumes"]
           if v.get("emptyDir", {}).get("medium") == "Memory"]
    if not shm:
        yield f"{worker}: /dev/shm has 64 MiB, too little for NCCL"


def identity(manifests, _):
    """Certificates have the names that are dialled and granted."""
    dialled, uris = set(), set()
    for item in manifests.of("Certificate"):
        if "server auth" in item["spec"].get("usages", []):
            dialled |= set(item["spec"]["dnsNames"])
        uris |= set(item["spec"].get("uris", []))
    for pod in manifests.servers():
        flags = manifests.flags(pod)
        asks = "tls_client_ca" in flags or "auth_file" in flags
        if asks == ("insecure_listen" in flags):
            yield f"{pod}: must ask who calls, or say --insecure_listen"
        for ordinal in range(pod.count if "tls_cert" in flags else 0):
            name = f"{pod.name}-{ordinal}.{pod.owner['spec']['serviceName']}"
            if name not in dialled:
                yield f"{pod}: its certificate is not for {name}"
        if "auth_file" in flags:
            text = manifests.file(pod, flags["auth_file"])[1]
            for principal in json.loads(text)["principals"]:
                if principal["san"] not in uris:
                    yield f"{pod}: nobody has a certificate {principal['san']}"
                if not set(principal["roles"]) <= _ROLES:
                    yield f"{pod}: {principal['roles']} are no roles"


def hardening(manifests, _):
    """What the restricted profile asks for, and more, of every pod."""
    for pod in manifests.pods:
        security = pod.container.get("securityContext", {})
        wrong = [text for text, ok in [
            ("runs as root", pod.spec.get("securityContext", {}).get(
                "runAsNonRoot")),
            ("has no seccomp profile", pod.spec.get("securityContext", {}).get(
                "seccompProfile") == {"type": "RuntimeDefault"}),
            ("may gain privileges",
             security.get("allowPrivilegeEscalation") is False),
            ("may write to its root", security.get("readOnlyRootFilesystem")),
            ("has capabilities",
             security.get("capabilities") == {"drop": ["ALL"]}),
            ("holds a token of the API", pod.spec.get(
                "automountServiceAccountToken") is False),
        ] if not ok]
        yield from (f"{pod}: {text}" for text in wrong)
        account = pod.spec.get("serviceAccountName")
        if not manifests.named("ServiceAccount", account):
            yield f"{pod}: there is no ServiceAccount {account}"
        reached = any(
            pod in manifests.selected(
                item["spec"]["podSelector"].get("matchLabels"))
            for item in manifests.of("NetworkPolicy"))
        if pod.program == "cpfeed_server" and not reached:
            yield f"{pod}: no NetworkPolicy says who may call it"


RULES = [namespaces, selectors, ports, volumes, programs, memory, stopping,
         probes, metrics, topology, identity, hardening]
