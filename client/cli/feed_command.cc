#include "client/cli/feed_command.h"

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/channel.h"
#include "client/cli/command_status.h"
#include "client/cli/json_values.h"
#include "client/cli/progress.h"
#include "client/cli/security_flags.h"
#include "client/documents/batch_source.h"
#include "client/feed.h"
#include "client/session_client.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/packer_rows.h"

namespace cpfeed {
namespace {

// Cut documents are told apart: a few steps may hold pieces alone.
std::string CountsLine(const PackCounts& counts) {
  return absl::StrFormat("%d sequences, %d documents to their end, %d tokens",
                         counts.sequences, counts.documents, counts.tokens);
}

absl::Status CheckOptions(const FeedOptions& options) {
  if (options.session.empty()) {
    return InvalidArgument(kBadOption, "--session must be given");
  }
  if (options.steps < 0) {
    return InvalidArgument(
        kBadOption,
        absl::StrCat("--steps is ", options.steps, "; must not be negative"));
  }
  return absl::OkStatus();
}

// Nothing where it is not asked for.
absl::StatusOr<std::optional<v1::CreateSessionRequest>> CreateRequest(
    const FeedOptions& options) {
  if (!options.create) return std::nullopt;
  SessionFlags flags = options.session_flags;
  flags.cp_size = static_cast<int>(options.pack.cp_size);
  flags.padding_token_id = options.pack.padding_token_id.value_or(0);
  return MakeCreateRequest(options.session, flags);
}

struct Fed {
  int64_t steps = 0;
  PackCounts counts;
};

// The documents as a stream of batches that can go back.
class DocumentFeed {
 public:
  DocumentFeed(const FeedOptions& options, std::ostream& err)
      : options_(options), progress_(err) {}

  BatchStream stream() {
    return {.next = [this] { return Next(); },
            .go_to =
                [this](int64_t next_sequence, const auto& state) {
                  return GoTo(next_sequence, state);
                }};
  }

  // What this run has fed.
  Fed fed() const { return {.steps = steps_, .counts = source_->totals()}; }

  absl::Status Open() {
    CF_ASSIGN_OR_RETURN(source_, OpenBatchSource(options_.pack));
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::optional<OutgoingBatch>> Next() {
    if (options_.steps != 0 && steps_ >= options_.steps) return std::nullopt;
    CF_ASSIGN_OR_RETURN(std::optional<SourceBatch> batch, source_->Next());
    if (!batch) return std::nullopt;
    ++steps_;
    progress_.Report([&] {
      return absl::StrFormat("cpfeed feed: %d steps: %s", steps_,
                             CountsLine(source_->totals()));
    });
    return OutgoingBatch{.batch = std::move(batch->batch),
                         .info = {.batch_id = absl::StrCat(
                                      "documents=", batch->counts.documents),
                                  .producer_state = source_->State(),
                                  .data_epoch = batch->epoch}};
  }

  absl::Status GoTo(int64_t next_sequence,
                    const std::optional<std::string>& state) {
    if (!first_ && next_sequence > 0 && !options_.resume) {
      return InvalidArgument(
          kOutOfOrder, absl::StrCat("the session has ", next_sequence,
                                    " batches of producer ", options_.producer,
                                    "; use --resume to go on behind them"));
    }
    if (next_sequence > 0 && !state) {
      return InvalidArgument(
          kCursorMismatch,
          "the batches in the session carry no state to go on from");
    }
    if (first_) CF_RETURN_IF_ERROR(Open());  // From its beginning.
    if (!first_) first_ = next_sequence;
    steps_ = next_sequence - *first_;
    return next_sequence > 0 ? source_->Restore(*state) : absl::OkStatus();
  }

  const FeedOptions& options_;
  Progress progress_;
  std::unique_ptr<BatchSource> source_;
  std::optional<int64_t> first_;  // Of this run.
  int64_t steps_ = 0;
};

Json FedJson(const Fed& fed) {
  return {{"status", "OK"},
          {"steps", fed.steps},
          {"sequences", fed.counts.sequences},
          {"documents", fed.counts.documents},
          {"tokens", fed.counts.tokens},
          {"padding_tokens", fed.counts.padding}};
}

absl::StatusOr<Fed> FeedDocuments(const FeedOptions& options,
                                  std::ostream& err) {
  CF_RETURN_IF_ERROR(CheckOptions(options));
  DocumentFeed documents(options, err);
  CF_RETURN_IF_ERROR(documents.Open());
  CF_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                      OpenChannel(options.server, options.security));
  CF_ASSIGN_OR_RETURN(auto create, CreateRequest(options));
  CF_RETURN_IF_ERROR(
      Feed(channel,
           {.stream = {.session = absl::StrCat("sessions/", options.session),
                       .producer = options.producer,
                       .session_wait =
                           absl::Seconds(options.session_wait_seconds)},
            .retry = {.give_up_after =
                          absl::Seconds(options.reconnect_wait_seconds)},
            .create = std::move(create),
            .until_read = options.until_read},
           documents.stream())
          .status());
  return documents.fed();
}

}  // namespace

int RunFeed(const FeedOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<Fed> fed = FeedDocuments(options, err);
  if (!fed.ok()) {
    return ReportError("cpfeed feed", fed.status(), options.json, out, err);
  }
  if (options.json) {
    out << FedJson(*fed).dump() << std::endl;
  } else {
    out << absl::StrFormat("fed %d steps: %s, %d padding", fed->steps,
                           CountsLine(fed->counts), fed->counts.padding)
        << std::endl;
  }
  return kExitOk;
}

void RegisterFeed(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<FeedOptions>();
  CLI::App& command =
      *app.add_subcommand("feed", "Pack documents and put them into a session");
  command.add_option("--server", options->server,
                     "The server, such as 127.0.0.1:8470");
  AddSecurityFlags(command, options->security);
  command.add_option("--session", options->session, "The session's id")
      ->required();
  command.add_option("--producer", options->producer,
                     "Which of the session's producers this is");
  command.add_flag("--create", options->create,
                   "Make the session, for --cp_size ranks, if it is not there");
  command.add_flag("--resume", options->resume,
                   "Go on behind the batches that the session has");
  command.add_option("--steps", options->steps, "Stop after so many batches");
  command.add_option("--session_wait", options->session_wait_seconds,
                     "Seconds to wait for the session to be made");
  command.add_option("--reconnect_wait", options->reconnect_wait_seconds,
                     "Seconds to try again while the server is away; 0 gives "
                     "up at once");
  command.add_flag("--until_read", options->until_read,
                   "Stay until all ranks have everything, to send again what a "
                   "server or trainer that is started anew wants");
  command.add_flag("--json", options->json, "Print JSON");
  AddPackFlags(command, options->pack);
  AddSessionFlags(command, options->session_flags);
  command.footer(
      "Example:\n"
      "  cpfeed feed --server 127.0.0.1:8470 --session train --create "
      "--cp_size 4 --row_width 8192 docs/\n"
      "Exit status: 0; 2 options, inputs or a batch are wrong; 1 other "
      "failures, such as the server.");
  command.callback([options, &run] {
    run = [options] { return RunFeed(*options, std::cout, std::cerr); };
  });
}

}  // namespace cpfeed
