"""CUDA: the toolkit as a repository, an empty one where there is none.

It is CUDA_HOME, else /usr/local/cuda, else what `tools/setup --cuda` put into
.venv-cuda. That has a compiler and the runtime alone; headers that LibTorch's
own include (cuBLAS and others) and NCCL come from .venv-python then.
"""

# For targets that need --config=cuda: target_compatible_with = CUDA_ONLY.
CUDA_ONLY = select({
    "//third_party:cuda_on": [],
    "//conditions:default": ["//third_party:never"],
})

_FOUND = """
package(default_visibility = ["//visibility:public"])

cc_library(name = "headers", hdrs = glob(["include/**"]), includes = ["include"])

cc_library(
    name = "runtime",
    linkopts = ["-L{lib}", "-l:libcudart.so.13", "-Wl,-rpath,{lib}"],
    deps = [":headers"],
)
"""

_ABSENT = """
package(default_visibility = ["//visibility:public"])

[cc_library(name = n) for n in ["headers", "runtime"]]
"""

def _nvidia_wheels(rctx, venv):
    """The folder nvidia/ of an environment in the tree, or None."""
    root = rctx.path(Label("//:WORKSPACE")).dirname
    lib = rctx.path("%s/%s/lib" % (root, venv))
    if not lib.exists:
        return None
    for python in lib.readdir():
        nvidia = python.get_child("site-packages").get_child("nvidia")
        if nvidia.exists:
            return nvidia
    return None

def _find_home(rctx):
    homes = [rctx.os.environ.get("CUDA_HOME") or "/usr/local/cuda"]
    wheels = _nvidia_wheels(rctx, ".venv-cuda")
    if wheels:
        homes.append(str(wheels.get_child("cu13")))
    for home in homes:
        if rctx.path(home + "/bin/nvcc").exists:
            return home
    return None

def _link_headers(rctx, folders):
    """Of two headers of one name that of the earlier folder counts."""
    seen = {}
    for folder in folders:
        if not folder.exists:
            continue
        for entry in folder.readdir():
            if entry.basename not in seen:
                seen[entry.basename] = True
                rctx.symlink(entry, "include/" + entry.basename)

def _cuda_toolkit_impl(rctx):
    home = _find_home(rctx)
    if not home:
        rctx.file("BUILD", _ABSENT)
        rctx.file("config.bzl", "NVCC = None\nNVCC_VERSION = None\n")
        return
    target = rctx.path(home + "/targets/x86_64-linux")
    if not target.exists:
        target = rctx.path(home)
    folders = [target.get_child("include")]
    wheels = _nvidia_wheels(rctx, ".venv-python")
    if wheels:
        folders.append(wheels.get_child("cu13").get_child("include"))
        folders.append(wheels.get_child("nccl").get_child("include"))
    _link_headers(rctx, folders)
    rctx.file("BUILD", _FOUND.format(lib = str(target.get_child("lib").realpath)))
    nvcc = str(rctx.path(home + "/bin/nvcc").realpath)
    version = rctx.execute([nvcc, "--version"])
    if version.return_code:
        fail("%s --version: %s" % (nvcc, version.stderr))
    rctx.file("config.bzl", "NVCC = %r\nNVCC_VERSION = %r\n" % (
        nvcc,
        version.stdout.strip().split("\n")[-1],
    ))

cuda_toolkit = repository_rule(
    implementation = _cuda_toolkit_impl,
    local = True,
    environ = ["CUDA_HOME"],
)
