"""CUDA: the toolkit as a repository, an empty one where there is none."""

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

cc_library(name = "nccl", linkopts = ["-L{lib}", "-l:libnccl.so.2"], deps = [":runtime"])
"""

_ABSENT = """
package(default_visibility = ["//visibility:public"])

[cc_library(name = n) for n in ["headers", "runtime", "nccl"]]
"""

def _cuda_toolkit_impl(rctx):
    home = rctx.os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    nvcc = rctx.path(home + "/bin/nvcc")
    if not nvcc.exists:
        rctx.file("BUILD", _ABSENT)
        rctx.file("config.bzl", "NVCC = None\n")
        return
    target = rctx.path(home + "/targets/x86_64-linux")
    if not target.exists:
        target = rctx.path(home)
    rctx.symlink(target.get_child("include"), "include")
    rctx.file("BUILD", _FOUND.format(lib = str(target.get_child("lib").realpath)))
    rctx.file("config.bzl", "NVCC = %s\n" % repr(str(nvcc.realpath)))

cuda_toolkit = repository_rule(
    implementation = _cuda_toolkit_impl,
    local = True,
    environ = ["CUDA_HOME"],
)
