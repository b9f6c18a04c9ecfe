"""Debian's libraries as cc_library targets, link flags by pkg-config."""

_LIBRARY = """
cc_library(name = {name}, defines = {defines}, linkopts = {linkopts})
"""

def _unique(flags):
    """Keeps each flag's last place, as the linker needs it."""
    seen = {}
    kept = []
    for flag in reversed(flags):
        if flag not in seen:
            seen[flag] = True
            kept.append(flag)
    return reversed(kept)

def _as_needed(flags):
    """pkg-config lists private requirements too: some fifty Abseil libraries for grpc++."""
    return ["-Wl,--push-state,--as-needed"] + flags + ["-Wl,--pop-state"]

def _system_libraries_impl(rctx):
    build = 'package(default_visibility = ["//visibility:public"])\n'
    for name, modules in rctx.attr.libs.items():
        result = rctx.execute(["pkg-config", "--libs"] + modules)
        if result.return_code:
            fail("pkg-config %s: %s (Debian package missing?)" % (modules, result.stderr))
        flags = [f for f in result.stdout.strip().split(" ") if f.startswith("-l")]
        cflags = rctx.execute(["pkg-config", "--cflags-only-other"] + modules)
        defines = [f[2:] for f in cflags.stdout.strip().split(" ") if f.startswith("-D")]
        build += _LIBRARY.format(
            name = repr(name),
            defines = repr(defines),
            linkopts = repr(_as_needed(_unique(flags))),
        )
    for name, flags in rctx.attr.plain.items():
        build += _LIBRARY.format(name = repr(name), defines = [], linkopts = repr(_as_needed(flags)))
    for tool in rctx.attr.tools:
        path = rctx.which(tool)
        if not path:
            fail("no %s on PATH (Debian package missing?)" % tool)
        rctx.symlink(path, tool)
    build += "exports_files(%s)\n" % repr(rctx.attr.tools)
    rctx.file("BUILD", build)

system_libraries = repository_rule(
    implementation = _system_libraries_impl,
    local = True,
    attrs = {
        "libs": attr.string_list_dict(),
        "plain": attr.string_list_dict(),
        "tools": attr.string_list(),
    },
)
