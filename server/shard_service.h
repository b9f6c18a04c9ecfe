// ShardService: the stream goes through a StreamAcceptor, the single shard is
// here.

#ifndef CPFEED_SERVER_SHARD_SERVICE_H_
#define CPFEED_SERVER_SHARD_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "cpfeed/v1/shard.grpc.pb.h"
#include "server/auth/authenticator.h"
#include "server/session_registry.h"

namespace cpfeed {

class ShardServiceImpl final
    : public v1::ShardService::WithRawMethod_StreamShards<
          v1::ShardService::Service> {
 public:
  ShardServiceImpl(SessionRegistry& registry, Authenticator* authenticator)
      : registry_(registry), authenticator_(authenticator) {}

  grpc::Status GetShard(grpc::ServerContext* context,
                        const v1::GetShardRequest* request,
                        v1::GetShardResponse* response) override;

 private:
  SessionRegistry& registry_;
  Authenticator* const authenticator_;
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_SHARD_SERVICE_H_
