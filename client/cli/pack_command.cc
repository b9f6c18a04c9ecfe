#include "client/cli/pack_command.h"

#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command_status.h"
#include "client/cli/json_values.h"
#include "client/cli/pack_json.h"
#include "client/cli/progress.h"
#include "client/documents/batch_source.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/packer_rows.h"
#include "core/batch/parity.h"

namespace cpfeed {
namespace {

std::string ProgressLine(const PackCounts& counts) {
  return absl::StrFormat(
      "cpfeed pack: %d batches, %d documents, %.1f M tokens, rows are full to "
      "%.2f %%",
      counts.batches, counts.documents, 1e-6 * counts.tokens,
      100 * counts.FillRatio());
}

// The batches' place: a file, or a stream that is there.
absl::StatusOr<std::ostream*> OpenOutput(const std::string& output,
                                         std::ostream& out,
                                         std::ofstream& file) {
  if (output == "-") return &out;
  file.open(output, std::ios::binary | std::ios::trunc);
  if (file) return &file;
  return InvalidArgument(kBadOption, absl::StrCat("output ", output,
                                                  " cannot be opened; must be "
                                                  "a file in a folder that "
                                                  "can be written to"));
}

absl::Status WriteBatches(const PackCommandOptions& options,
                          BatchSource& source, std::ostream& batches,
                          std::ostream& err) {
  CF_ASSIGN_OR_RETURN(const Parity parity, ParseParity(options.flags.parity));
  Progress progress(err);
  for (int64_t written = 0;
       options.max_batches == 0 || written < options.max_batches; ++written) {
    CF_ASSIGN_OR_RETURN(const std::optional<SourceBatch> batch, source.Next());
    if (!batch) break;
    batches << PackedBatchLine(batch->batch, parity) << '\n';
    if (!batches) {
      return absl::InternalError(
          absl::StrCat("cannot write batch ", written, " to ", options.output));
    }
    progress.Report([&] { return ProgressLine(source.totals()); });
  }
  batches.flush();
  if (!batches) {
    return absl::InternalError(
        absl::StrCat("cannot write to ", options.output));
  }
  return absl::OkStatus();
}

absl::Status Pack(const PackCommandOptions& options, std::ostream& out,
                  std::ostream& report, std::ostream& err) {
  if (options.max_batches < 0) {
    return InvalidArgument(kBadOption,
                           absl::StrCat("max_batches is ", options.max_batches,
                                        "; must be at least 0"));
  }
  CF_ASSIGN_OR_RETURN(const auto source, OpenBatchSource(options.flags));
  std::ofstream file;
  CF_ASSIGN_OR_RETURN(std::ostream * batches,
                      OpenOutput(options.output, out, file));
  CF_RETURN_IF_ERROR(WriteBatches(options, *source, *batches, err));
  if (options.json) {
    report << PackStatisticsJson(source->totals(), source->losses()) << "\n";
  } else {
    report << PackStatisticsText(source->totals(), source->losses());
  }
  return absl::OkStatus();
}

}  // namespace

int RunPack(const PackCommandOptions& options, std::ostream& out,
            std::ostream& err) {
  std::ostream& report = options.output == "-" ? err : out;
  const absl::Status status = Pack(options, out, report, err);
  if (status.ok()) return kExitOk;
  return ReportError("cpfeed pack", status, options.json, report, err);
}

void RegisterPack(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<PackCommandOptions>();
  CLI::App* pack =
      app.add_subcommand("pack", "Pack documents into batches of rows");
  AddPackFlags(*pack, options->flags);
  pack->add_option("--output", options->output,
                   "Where batches go, a line of JSON each; - is the standard "
                   "output")
      ->type_name("FILE")
      ->capture_default_str();
  pack->add_option("--max_batches", options->max_batches,
                   "Stop after as many; 0: all")
      ->capture_default_str();
  pack->add_flag("--json", options->json, "Print statistics as JSON");
  pack->footer(
      "Statistics go to the standard output, or to the standard error where\n"
      "the batches go to the output.\n"
      "Examples:\n"
      "  cpfeed pack docs --row_width 4096 --rows 2 --cp_size 4 \\\n"
      "      --long_documents cut --output batches.jsonl\n"
      "  cpfeed pack data/corpus --end_token_id 2 --shuffle --seed 1 \\\n"
      "      --epochs 2 --output batches.jsonl --json\n"
      "  cpfeed pack chats.jsonl --tokenizer tokenizer.json --max_batches 1 |\n"
      "      cpfeed shard --input - --cp_size 1 --json\n"
      "Exit status: 0; 2 where options or inputs are wrong; 1 where something\n"
      "else failed.");
  pack->callback([&run, options] {
    run = [options] { return RunPack(*options, std::cout, std::cerr); };
  });
}

}  // namespace cpfeed
