"""Which file may include what, and how long it may be.

check_file() holds the rules and check_tree() applies them to a source tree.
With the system's libraries all under /usr/include, Bazel does not see who
includes them; this does.
"""

import pathlib
import re

# The pipeline in core: a folder may include itself and those before it.
_PIPELINE = ("base", "tensor", "batch", "thd", "plan", "shard", "session",
             "wire")
_UP_TO_SHARD = _PIPELINE[:_PIPELINE.index("shard") + 1]
_ATTENTION = ("attention", "linear_attention", "loss")

# Core folder -> the other core folders that it may include.
CORE_FOLDERS = {
    name: frozenset(_PIPELINE[:i]) for i, name in enumerate(_PIPELINE)
}
CORE_FOLDERS["comm"] = frozenset(("base", "tensor"))
for _name in _ATTENTION:
    CORE_FOLDERS[_name] = frozenset(_UP_TO_SHARD + ("comm",))
CORE_FOLDERS["context"] = frozenset(_UP_TO_SHARD + ("comm",) + _ATTENTION)

# Folder of the tree -> the others that it may include.
TOP_FOLDERS = {
    "core": {"proto"},
    "transport": {"proto", "core"},
    "server": {"proto", "core", "transport"},
    "client": {"proto", "core", "transport"},
    "tests": {"proto", "core", "transport", "server", "client"},
}
_TORCH_FOLDERS = ("comm", "context") + _ATTENTION

_TORCH = re.compile(r"(torch|ATen|c10|caffe2)/")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include\s+["<]([^">]+)[">]', re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)

# Text that core may not have -> why. Time, settings and output come in from
# outside, so that core can be tested.
_NOT_IN_CORE = (
    (re.compile(r"\b(secure_)?getenv\s*\("), "reads the environment"),
    (re.compile(r"\bstd::c(out|err|log)\b|\bprintf\s*\("), "prints"),
    (re.compile(r"\babsl::Now\s*\(|\bsystem_clock\b|\bgettimeofday\s*\(|"
                r"\bclock_gettime\s*\(|\btime\s*\(\s*(nullptr|NULL|0)\s*\)"),
     "reads the wall clock"),
)

# A file past this asks for a split.
MAX_LINES = 600


def _include_problem(path, folder, included):
    """Returns why the file may not include `included`, or None."""
    parts = path.parts
    target = included.split("/")
    if included == "torch/torch.h":
        return "takes 18 s to compile; include what is used of it"
    if target[0] in TOP_FOLDERS and len(target) > 1:
        if target[0] != parts[0] and target[0] not in TOP_FOLDERS[parts[0]]:
            return f"{parts[0]} may not use {target[0]}"
    if folder is None:
        if parts[0] == "server" and _TORCH.match(included):
            return "the server is built without LibTorch"
        return None
    if target[0] == "core" and target[1] not in CORE_FOLDERS[folder]:
        if target[1] != folder:
            return f"core/{folder} may not use core/{target[1]}"
    if re.match(r"grpc(pp|\+\+)?/", included):
        return "core does not know gRPC"
    if included.startswith("absl/flags/"):
        return "flags live in main.cc alone"
    if included.endswith(".pb.h") and folder != "wire":
        return "only core/wire knows protos"
    if _TORCH.match(included) and folder not in _TORCH_FOLDERS:
        return f"core/{folder} is built without LibTorch"
    return None


def check_file(path, text):
    """Returns the problems of one source file, each as "path:line: text".

    `path` is relative to the root of the tree, with forward slashes.
    """
    path = pathlib.PurePosixPath(path)
    problems = []

    def report(position, what):
        line = text.count("\n", 0, position) + 1
        problems.append(f"{path}:{line}: {what}")

    # Comments become spaces, so that positions stay.
    code = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    folder = None
    if path.parts[0] == "core":
        folder = path.parts[1]
        if folder not in CORE_FOLDERS:
            return [f"{path}: no rule for core/{folder}; add it to "
                    "tests/lint/include_rules.py"]
    for match in _INCLUDE.finditer(code):
        included = match.group(1)
        why = _include_problem(path, folder, included)
        if why:
            report(match.start(), f"includes {included}: {why}")
        is_nccl = re.fullmatch(r"(.*/)?nccl\.h", included)
        if is_nccl and not str(path).startswith("core/comm/nccl_"):
            report(match.start(), f"includes {included}: only "
                   "core/comm/nccl_* knows NCCL")
    if folder:
        for pattern, what in _NOT_IN_CORE:
            for match in pattern.finditer(code):
                report(match.start(), f"{match.group()} {what}")
    num_lines = text.count("\n")
    if num_lines > MAX_LINES:
        problems.append(f"{path}: has {num_lines} lines; split it, the most "
                        f"is {MAX_LINES}")
    return problems


def source_files(root):
    """Returns the tree's C++ and CUDA sources, relative to `root`."""
    root = pathlib.Path(root)
    return sorted(
        path.relative_to(root) for top in TOP_FOLDERS
        for path in root.joinpath(top).rglob("*")
        if path.suffix in (".h", ".cc", ".cu", ".cuh"))


def check_tree(root):
    """Returns the problems of all source files under `root`."""
    problems = []
    for path in source_files(root):
        text = pathlib.Path(root, path).read_text(encoding="utf-8")
        problems += check_file(path.as_posix(), text)
    return problems
