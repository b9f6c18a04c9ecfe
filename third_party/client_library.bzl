"""client_library: a cc_library with all that it needs of ours, for builds without Bazel."""

def _client_library_impl(ctx):
    archive = ctx.actions.declare_file("lib%s.a" % ctx.label.name)
    headers = ctx.actions.declare_file(ctx.label.name + "_headers.tar")
    objects = []
    files = []
    for dep in ctx.attr.deps:
        for linker_input in dep[CcInfo].linking_context.linker_inputs.to_list():
            for library in linker_input.libraries:
                objects += library.pic_objects or library.objects or []
        files += dep[CcInfo].compilation_context.headers.to_list()
    args = ctx.actions.args()
    args.use_param_file("@%s", use_always = True)

    # q and not r: objects of two folders may have one name.
    args.add("qcsD", archive)
    args.add_all(objects)
    ctx.actions.run_shell(
        inputs = objects,
        outputs = [archive],
        command = "rm -f %s && ar \"$@\"" % archive.path,
        arguments = [args],
        mnemonic = "ClientArchive",
    )
    names = []
    for file in depset(files).to_list():
        if not file.owner.workspace_name:
            # Generated headers are included relative to their package.
            root = file.root.path + "/proto" if file.root.path else "."
            names.append("-C $root/%s %s" % (root, file.path[len(root) + 1:] if file.root.path else file.path))
    ctx.actions.run_shell(
        inputs = files,
        outputs = [headers],
        command = "root=$PWD && tar --dereference --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf %s %s" %
                  (headers.path, " ".join(names)),
        mnemonic = "ClientHeaders",
    )
    made = [archive, headers]
    return [DefaultInfo(files = depset(made), runfiles = ctx.runfiles(files = made))]

client_library = rule(
    implementation = _client_library_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)
