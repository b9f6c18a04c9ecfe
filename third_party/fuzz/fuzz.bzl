"""cc_fuzz_test: a libFuzzer entry point that is also an ordinary test."""

def cc_fuzz_test(name, srcs, deps = [], tags = [], **kwargs):
    """Replays its corpus as a test, and fuzzes where libFuzzer is linked.

    The corpus is all files under corpus/NAME of the package; there must be
    some. See tests/fuzz/README.md.

    Args:
      name: of the test.
      srcs: define LLVMFuzzerTestOneInput.
      deps: of srcs.
      tags: besides "fuzz".
      **kwargs: as for cc_test.
    """
    corpus = native.glob(["corpus/%s/**" % name])
    if not corpus:
        fail("no files in corpus/%s" % name)
    native.filegroup(
        name = name + "_corpus",
        testonly = True,
        srcs = corpus,
    )
    native.cc_test(
        name = name,
        srcs = srcs,
        args = ["$(rootpaths :%s_corpus)" % name],
        data = [":%s_corpus" % name],
        linkopts = select({
            "//third_party/fuzz:libfuzzer_on": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        tags = tags + ["fuzz"],
        deps = deps + select({
            "//third_party/fuzz:libfuzzer_on": [],
            "//conditions:default": ["//third_party/fuzz:replay_main"],
        }),
        **kwargs
    )
