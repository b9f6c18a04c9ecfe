// What gRPC alone makes of the same: chunks of a buffer in a server stream, as
// raw messages and as a protobuf `bytes` field, and a unary call.

#ifndef CPFEED_TESTS_BENCH_BARE_STREAM_H_
#define CPFEED_TESTS_BENCH_BARE_STREAM_H_

#include <grpcpp/channel.h>
#include <grpcpp/server.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace cpfeed::bench {

enum class BareKind {
  kRaw,    // Slices of the source are sent, gathered where they arrive.
  kBytes,  // google.protobuf.BytesValue: assigned, parsed, copied out.
};

// Serves them on a free port, with the settings of our own server.
class BareServer {
 public:
  BareServer();
  ~BareServer();
  int port() const { return port_; }

 private:
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

struct BareRequest {
  int64_t chunk_bytes = 0;
  int64_t num_chunks = 0;
};

// Reads a stream to its end, chunk behind chunk into `out`, from its start
// again where it is full; it has room for a chunk and 16 bytes. Returns the
// payload bytes.
int64_t ReadBareStream(const std::shared_ptr<grpc::Channel>& channel,
                       BareKind kind, BareRequest request,
                       std::vector<char>& out);

// A unary call with a few bytes there and back.
void PingBare(const std::shared_ptr<grpc::Channel>& channel);

}  // namespace cpfeed::bench

#endif  // CPFEED_TESTS_BENCH_BARE_STREAM_H_
