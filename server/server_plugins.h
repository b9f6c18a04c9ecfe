// Which of gRPC's own services a server has besides ours.

#ifndef CPFEED_SERVER_SERVER_PLUGINS_H_
#define CPFEED_SERVER_SERVER_PLUGINS_H_

#include <grpcpp/server_builder.h>

namespace cpfeed {

struct ServerPlugins {
  bool reflection = false;
  // Shows every peer's address: for a listener that only people on the machine
  // reach. Needs PrepareChannelz().
  bool channelz = false;
};

// These libraries put themselves into every server of the process, asked or
// not; so each builder is told.
void SetPlugins(grpc::ServerBuilder& builder, ServerPlugins plugins);

// Before the builder of a server with channelz is made.
void PrepareChannelz();

}  // namespace cpfeed

#endif  // CPFEED_SERVER_SERVER_PLUGINS_H_
