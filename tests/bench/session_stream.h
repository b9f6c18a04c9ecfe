// The product's own stream: a session whose steps wait at the server, and the
// ranks that read them.

#ifndef CPFEED_TESTS_BENCH_SESSION_STREAM_H_
#define CPFEED_TESTS_BENCH_SESSION_STREAM_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>
#include <string>

namespace cpfeed::bench {

struct SessionLoad {
  std::string id;
  int cp_size = 1;  // One reader a rank.
  int64_t chunk_bytes = 0;
  int64_t step_tokens = 0;  // 25 bytes each: three int64 tensors and a mask.
  int64_t num_steps = 0;
};

// Makes the session and feeds it; when this returns, all its steps are
// converted and wait at the server.
void FillSession(const std::shared_ptr<grpc::Channel>& channel,
                 const SessionLoad& load);

// Reads the session's steps to the end as `cp_rank`: checksums and plan are
// checked, every tensor is gathered into memory of its own, every step
// acknowledged. Returns the bytes of the tensors.
int64_t ReadSession(const std::shared_ptr<grpc::Channel>& channel,
                    const std::string& id, int cp_rank);

}  // namespace cpfeed::bench

#endif  // CPFEED_TESTS_BENCH_SESSION_STREAM_H_
