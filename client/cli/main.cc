// cpfeed: the command line program.

#include <CLI/CLI.hpp>
#include <exception>
#include <functional>
#include <iostream>
#include <string>

#include "client/cli/command_status.h"
#include "client/cli/drain_command.h"
#include "client/cli/explain_command.h"
#include "client/cli/feed_command.h"
#include "client/cli/inspect_command.h"
#include "client/cli/pack_command.h"
#include "client/cli/plan_command.h"
#include "client/cli/shard_command.h"
#include "client/cli/shard_remote.h"
#include "core/base/error.h"
#include "transport/channel_settings.h"

namespace cpfeed {
namespace {

// A flag that cannot be parsed is answered as a wrong batch is.
int ReportUsageError(const CLI::App& app, const CLI::ParseError& error,
                     bool json) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  if (json) {
    return ReportError("cpfeed", InvalidArgument(kBadOption, error.what()),
                       json, std::cout, std::cerr);
  }
  app.exit(error);
  return kExitRefused;
}

int Main(int argc, char** argv) {
  TuneAllocator();
  CLI::App app("cpfeed: packed sequence batches for context-parallel training");
  app.set_version_flag("--version", "cpfeed 0.1.0");
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0; 2 options or input are wrong, or refused; 1 other "
      "failures.\nEach sub-command explains itself: cpfeed shard --help");
  app.set_config("--config", "",
                 "TOML file of options, in a section for each sub-command: "
                 "[feed], cp_size = 4")
      ->type_name("FILE");
  // Else a misspelt option would do nothing.
  app.allow_config_extras(CLI::config_extras_mode::error);
  std::function<int()> run;
  RegisterShard(app, run, ShardThroughServer);
  RegisterPack(app, run);
  RegisterFeed(app, run);
  RegisterPlan(app, run);
  RegisterExplain(app, run);
  RegisterInspect(app, run);
  RegisterDrain(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    bool json = false;
    for (int i = 1; i < argc; ++i) json |= std::string(argv[i]) == "--json";
    return ReportUsageError(app, error, json);
  }
  return run();
}

}  // namespace
}  // namespace cpfeed

int main(int argc, char** argv) {
  try {
    return cpfeed::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "cpfeed: " << error.what() << std::endl;
    return cpfeed::kExitFailure;
  }
}
