#include "server/server_plugins.h"

#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <vector>

namespace cpfeed {
namespace {

constexpr char kChannelz[] = "channelz_service";

class PluginChoice final : public grpc::ServerBuilderOption {
 public:
  explicit PluginChoice(ServerPlugins plugins) : plugins_(plugins) {}
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*
                         plugins) override {
    // channelz can be had from its library alone.
    std::erase_if(*plugins, [this](const auto& plugin) {
      return !plugins_.channelz || plugin->name() != kChannelz;
    });
    if (!plugins_.reflection) return;
    plugins->push_back(
        std::make_unique<grpc::reflection::ProtoServerReflectionPlugin>());
  }

 private:
  const ServerPlugins plugins_;
};

}  // namespace

void SetPlugins(grpc::ServerBuilder& builder, ServerPlugins plugins) {
  builder.SetOption(std::make_unique<PluginChoice>(plugins));
}

void PrepareChannelz() { grpc::channelz::experimental::InitChannelzService(); }

}  // namespace cpfeed
