"""cuda_library: a cc_library of .cu files, compiled by nvcc with the C++ toolchain's compiler for the host."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@cuda//:config.bzl", "NVCC", "NVCC_VERSION")
load("//third_party:cuda.bzl", "CUDA_ONLY")

_FLAGS = [
    "-std=c++20",
    "-O3",
    "-lineinfo",
    "-Werror=all-warnings",
    "-Xcompiler=-fPIC",
    "-Xcompiler=-Wall",
]

# One architecture is compiled in half the time of two. The other config is for
# what is given to others: later GPUs compile the PTX when they load it.
_ARCHITECTURES = select({
    "//third_party:cuda_full_on": [
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90,code=[sm_90,compute_90]",
    ],
    "//conditions:default": ["-gencode=arch=compute_90,code=sm_90"],
})

def _cuda_objects_impl(ctx):
    if not NVCC:
        fail("--config=cuda needs a CUDA toolkit: set CUDA_HOME, or run tools/setup --cuda")
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    deps = cc_common.merge_cc_infos(cc_infos = [d[CcInfo] for d in ctx.attr.deps])
    compilation = deps.compilation_context
    args = ctx.actions.args()
    args.add_all(_FLAGS)
    args.add_all(ctx.attr.architectures)
    args.add("-ccbin", toolchain.compiler_executable)
    args.add_all(ctx.attr.copts)
    args.add_all(compilation.defines, before_each = "-D")
    args.add_all(compilation.quote_includes, format_each = "-Xcompiler=-iquote,%s")
    args.add_all(compilation.includes, before_each = "-I")
    args.add_all(compilation.system_includes, before_each = "-isystem")
    objects = []
    for src in ctx.files.srcs:
        obj = ctx.actions.declare_file("%s_cuda/%s.o" % (ctx.label.name, src.basename))
        ctx.actions.run(
            executable = NVCC,
            arguments = [args, "-I.", "-c", src.path, "-o", obj.path],
            # A header that is no input, directly or of a dependency, is not
            # there in the sandbox.
            inputs = depset([src] + ctx.files.hdrs, transitive = [compilation.headers, toolchain.all_files]),
            outputs = [obj],
            # The compiler is outside the tree: another version of it at the
            # same path is another action.
            env = {"CPFEED_NVCC_VERSION": NVCC_VERSION, "PATH": "/usr/bin:/bin"},
            mnemonic = "CudaCompile",
        )
        objects.append(obj)
    linking, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = features,
        cc_toolchain = toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = depset(objects),
            pic_objects = depset(objects),
        ),
        linking_contexts = [deps.linking_context],
    )
    return [
        CcInfo(linking_context = linking),
        DefaultInfo(files = depset(objects)),
    ]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "copts": attr.string_list(),
        "architectures": attr.string_list(),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def cuda_library(name, srcs, hdrs = [], deps = [], copts = [], visibility = None):
    """Only for --config=cuda; without it the target, and what depends on it, is left out."""
    _cuda_objects(
        name = name + "_objects",
        srcs = srcs,
        hdrs = hdrs,
        architectures = _ARCHITECTURES,
        copts = copts,
        target_compatible_with = CUDA_ONLY,
        deps = deps + ["@cuda//:runtime"],
    )
    native.cc_library(  # a cc_library has the module map that layering_check wants
        name = name,
        hdrs = hdrs,
        target_compatible_with = CUDA_ONLY,
        visibility = visibility,
        deps = deps + [name + "_objects"],
    )
