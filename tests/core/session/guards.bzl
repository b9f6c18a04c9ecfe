"""The guards of the session: without any one of them the state-space test fails.

session_guard_tests() makes a test of each: it takes the guard out of the source,
links the explorer with the session that is left, and passes where the explorer
finds what is wrong with it.
"""

# name: the guard; source and text: what is replaced, once, and by what.
GUARDS = [
    struct(
        name = "older_loader_is_fenced",
        source = "session_producers.cc",
        text = "if (incarnation < producer->incarnation ||",
        by = "if (",
    ),
    struct(
        name = "second_loader_is_fenced",
        source = "session_producers.cc",
        text = "(incarnation == producer->incarnation && producer->connection != 0)",
        by = "false",
    ),
    struct(
        name = "newer_loader_drops_what_was_under_way",
        source = "session_producers.cc",
        text = "if (producer->connection != 0) CloseProducer(producer->connection);",
        by = "",
    ),
    struct(
        name = "known_batch_is_a_duplicate",
        source = "session_producers.cc",
        text = "if (sequence < producer.next_sequence) {",
        by = "if (false) {",
    ),
    struct(
        name = "other_content_is_a_conflict",
        source = "session_producers.cc",
        text = "if (digest == known_digest) return absl::OkStatus();",
        by = "return absl::OkStatus();",
    ),
    struct(
        name = "gap_is_out_of_order",
        source = "session_producers.cc",
        text = "if (sequence != producer.next_sequence + under_way) {",
        by = "if (false) {",
    ),
    struct(
        name = "nothing_comes_behind_the_end",
        source = "session_producers.cc",
        text = "if (producer.finished) {\n    return MakeError(",
        by = "if (false) {\n    return MakeError(",
    ),
    struct(
        name = "finish_waits_for_its_batches",
        source = "session_producers.cc",
        text = "if (num_batches != producer->next_sequence || !producer->receiving.empty()) {",
        by = "if (false) {",
    ),
    struct(
        name = "steps_come_in_turn",
        source = "session_producers.cc",
        text = "} else if (!producer.finished) {\n      break;",
        by = "} else if (false) {\n      break;",
    ),
    struct(
        name = "broken_stream_drops_what_was_under_way",
        source = "session_producers.cc",
        text = "producer.connection = 0;\n    DropReceiving(producer, 0);",
        by = "producer.connection = 0;",
    ),
    struct(
        name = "older_generation_is_fenced",
        source = "session_consumers.cc",
        text = "if (generation != 0 && generation != generation_) {",
        by = "if (false) {",
    ),
    struct(
        name = "older_rank_is_fenced",
        source = "session_consumers.cc",
        text = "if (incarnation < consumer.incarnation) {",
        by = "if (false) {",
    ),
    struct(
        name = "freed_steps_are_not_sent",
        source = "session_consumers.cc",
        text = "if (first < first_held_step_) {",
        by = "if (false) {",
    ),
    struct(
        name = "nobody_jumps_ahead",
        source = "session_consumers.cc",
        text = "if (first > consumer.first_unsent) {",
        by = "if (false) {",
    ),
    struct(
        name = "fastest_waits_for_the_slowest",
        source = "session_consumers.cc",
        text = "if (consumer->next_step > SlowestAckedStep() + config_.max_step_skew) {",
        by = "if (false) {",
    ),
    struct(
        name = "end_comes_when_all_have_finished",
        source = "session_consumers.cc",
        text = "if (!all_finished()) return Delivery{};",
        by = "",
    ),
    struct(
        name = "steps_wait_for_credit",
        source = "session_consumers.cc",
        text = "if (bytes > consumer->credit_bytes && !holds_nothing) return false;",
        by = "(void)holds_nothing;",
    ),
    struct(
        name = "what_was_not_sent_is_not_acknowledged",
        source = "session_consumers.cc",
        text = "if (through_step >= consumer->next_step) {",
        by = "if (false) {",
    ),
    struct(
        name = "steps_are_freed_when_all_have_them",
        source = "session_consumers.cc",
        text = "slowest = std::min(slowest, consumer.acked_step);",
        by = "slowest = std::max(slowest, consumer.acked_step);",
    ),
    struct(
        name = "retained_steps_wait_for_commit",
        source = "session_consumers.cc",
        text = "first_needed = std::min(first_needed, committed_step_ + 1);",
        by = "",
    ),
    struct(
        name = "what_is_not_published_is_not_committed",
        source = "session.cc",
        text = "if (step >= next_step_) {",
        by = "if (false) {",
    ),
    struct(
        name = "seek_fences_ranks",
        source = "session.cc",
        text = "    consumer.connection = 0;\n    consumer.acked_step = step;",
        by = "    consumer.acked_step = step;",
    ),
    struct(
        name = "seek_is_a_new_generation",
        source = "session.cc",
        text = "  ++generation_;",
        by = "",
    ),
    struct(
        name = "seek_fences_loaders_that_replay",
        source = "session.cc",
        text = "    producer.pending_grant_bytes = 0;\n    producer.connection = 0;",
        by = "    producer.pending_grant_bytes = 0;",
    ),
    struct(
        name = "freed_steps_are_not_sought",
        source = "session.cc",
        text = "if (retain && step + 1 < first_held_step_) {",
        by = "if (false) {",
    ),
    struct(
        name = "held_memory_is_counted",
        source = "session_memory.cc",
        text = "config_.memory_budget_bytes - charged_bytes_ - reserved_bytes();\n  int64_t more",
        by = "config_.memory_budget_bytes * 4 - reserved_bytes();\n  int64_t more",
    ),
]

_SOURCES = [
    "session.cc",
    "session_consumers.cc",
    "session_memory.cc",
    "session_producers.cc",
]

_DEPS = [
    "//core/base:error",
    "//core/base:status_macros",
    "//core/session:session_config",
    "//core/session:session_interface",
    "//core/session:session_parts",
    "@system//:absl_status",
    "@system//:absl_statusor",
    "@system//:absl_strings",
]

def session_guard_tests():
    """A test for each of GUARDS: session_guard_NAME_test."""
    for source in _SOURCES:
        native.cc_library(
            name = "rest_without_" + source[:-len(".cc")],
            srcs = ["//core/session:" + s for s in _SOURCES if s != source],
            deps = _DEPS,
        )
    for guard in GUARDS:
        mutant = "session_without_%s" % guard.name
        native.genrule(
            name = mutant + "_source",
            srcs = ["//core/session:" + guard.source],
            outs = [mutant + ".cc"],
            cmd = "python3 $(location remove_guard.py) $< $@ '%s' '%s'" % (
                guard.text.replace("\n", "\\n"),
                guard.by.replace("\n", "\\n"),
            ),
            tools = ["remove_guard.py"],
        )
        native.cc_library(
            name = mutant,
            srcs = [mutant + ".cc"],
            copts = ["-Wno-unused-function", "-Wno-unused-variable"],
            deps = _DEPS + [":rest_without_" + guard.source[:-len(".cc")]],
        )
        native.cc_test(
            name = "session_guard_%s_test" % guard.name,
            size = "small",
            tags = ["no_sanitizer"],
            deps = [":guard_test", ":" + mutant],
        )
