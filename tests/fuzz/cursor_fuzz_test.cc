// Any cursor: a session goes there and makes cursors that hold, or refuses it.
//
// Input: whether to seal it, what to do (1 byte each), Cursor.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/wire/cursor_codec.h"
#include "cpfeed/v1/session.pb.h"
#include "server/held_step.h"
#include "server/session_host.h"
#include "server/session_spec.h"
#include "server/wakeup.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace cpfeed {
namespace {

SessionSpec MakeSpec(bool retain) {
  v1::CreateSessionRequest request;
  request.set_session_id("fuzz");
  v1::Session& session = *request.mutable_session();
  session.mutable_topology()->set_cp_size(1);
  session.add_producers("a");
  session.add_producers("b");
  if (retain) {
    session.mutable_delivery()->set_retention(v1::RETENTION_RETAIN);
  }
  absl::StatusOr<SessionSpec> spec =
      MakeSessionSpec(request, {.max_batch_bytes = 1000});
  CF_CHECK(spec.ok());
  return *std::move(spec);
}

// A batch of each producer becomes a step, and the cursor behind it holds.
void GoOn(SessionHost& host) {
  Wakeup wakeup;
  for (const char* id : {"a", "b"}) {
    const auto opened = host.OpenProducer(id, 1, &wakeup);
    CF_CHECK(opened.ok());
    const int64_t connection = opened->connection;
    const int64_t sequence = opened->next_sequence;
    const auto admission = host.Admit(connection, sequence, 7, 1, 4);
    if (admission.ok() && !admission->duplicate) {
      const absl::Status done =
          host.Complete(connection, sequence, 4, ConvertedBatch());
      CF_CHECK(done.ok());
    }
    for (const PublishedStep& step : host.TakePublished(connection)) {
      const auto held = host.FindStep(step.step);
      CF_CHECK(held != nullptr);
      v1::Cursor cursor;
      CF_CHECK(cursor.ParseFromString(held->cursor));
      CF_CHECK(CheckCursor(cursor).ok());
      CF_CHECK(host.Commit(cursor).ok());
    }
    host.CloseProducer(connection);
  }
}

void Run(testing::FuzzInput input) {
  const bool seal = input.Byte() % 8 != 0;
  const uint8_t todo = input.Byte();
  v1::Cursor cursor;
  if (!cursor.ParseFromString(input.Rest())) return;
  SessionHost host(MakeSpec(todo % 2 == 1));
  if (seal) {
    cursor.set_spec_digest(host.spec().digest);
    SealCursor(cursor);
    CF_CHECK(CheckCursor(cursor).ok());
  }
  if (todo % 4 >= 2) GoOn(host);
  if (todo % 8 >= 4) (void)host.Commit(cursor);
  if (!host.Seek(cursor).ok()) return;
  const v1::Session state = host.ToProto();
  CF_CHECK(state.committed_step() < state.next_step());
  GoOn(host);
}

}  // namespace
}  // namespace cpfeed

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cpfeed::testing::QuietProtobuf();
  cpfeed::Run(cpfeed::testing::FuzzInput(data, size));
  return 0;
}
