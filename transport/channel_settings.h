// gRPC settings that both ends must agree on, in one place.

#ifndef CPFEED_TRANSPORT_CHANNEL_SETTINGS_H_
#define CPFEED_TRANSPORT_CHANNEL_SETTINGS_H_

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

namespace cpfeed {

// The most bytes of one gRPC message: the largest chunk and room for its
// header.
inline constexpr int kMaxGrpcMessageBytes = 8 << 20;

// Payload bytes of one stream message unless a session says otherwise, and at
// most.
inline constexpr int64_t kDefaultChunkBytes = 1 << 20;
inline constexpr int64_t kMaxChunkBytes = 4 << 20;

// What a stream may hold in flight below us: without this gRPC runs tens of
// megabytes ahead of a reader that stands still.
inline constexpr int kLookaheadBytes = 4 << 20;

// A client pings a quiet connection so often; the server allows it.
inline constexpr int kClientKeepaliveMs = 30'000;
inline constexpr int kServerMinPingIntervalMs = 10'000;

grpc::ChannelArguments MakeClientArguments();

// `stream_window_bytes` is what a stream may hold in flight; 0 leaves it to
// gRPC.
void ApplyServerArguments(grpc::ServerBuilder& builder,
                          int stream_window_bytes);

// Tells glibc to keep freed megabytes: by default it maps, faults in and gives
// back every large buffer, which costs more than moving the bytes. Call once
// in main.
void TuneAllocator();

}  // namespace cpfeed

#endif  // CPFEED_TRANSPORT_CHANNEL_SETTINGS_H_
