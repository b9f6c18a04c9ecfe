#include "client/cli/plan_command.h"

#include <chrono>
#include <iostream>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/command_status.h"
#include "client/cli/json_values.h"
#include "client/cli/lengths_file.h"
#include "client/cli/plan_flags.h"
#include "client/cli/plan_page.h"
#include "client/cli/plan_report.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/auto_pad.h"
#include "core/batch/packed_lengths.h"
#include "core/plan/check_lengths.h"
#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"
#include "core/plan/plan_verifier.h"
#include "core/plan/shard_plan.h"
#include "core/plan/transfer_table.h"
#include "core/plan/visible_keys.h"

namespace cpfeed {
namespace {

absl::StatusOr<std::vector<LayoutSpec>> SpecsOf(const PlanOptions& options) {
  std::vector<LayoutSpec> specs;
  CF_ASSIGN_OR_RETURN(const Objective objective,
                      ParseObjective(options.objective));
  CF_ASSIGN_OR_RETURN(const VisibleKeys mask,
                      ParseMask(options.mask, options.window_left));
  for (const std::string& name : options.layouts) {
    CF_ASSIGN_OR_RETURN(const Layout layout, ParseLayout(name));
    const LayoutSpec spec = {.layout = layout,
                             .uneven = options.uneven,
                             .stripe_width = options.stripe_width,
                             .chunk_size = options.chunk_size,
                             .keep_padding = options.keep_padding,
                             .token_multiple = options.token_multiple,
                             .objective = objective,
                             .mask = mask,
                             .linear_cost = options.linear_cost};
    CF_RETURN_IF_ERROR(CheckLayoutSpec(spec, options.cp_size));
    specs.push_back(ResolveLayout(spec, /*has_lengths=*/true));
    specs.back().objective = ResolveObjective(objective, options.cp_size);
  }
  return specs;
}

// Bytes of one token's keys and values, or nothing where they were not asked
// for.
absl::StatusOr<std::optional<int64_t>> KvRowBytes(const PlanOptions& options) {
  if (!options.num_kv_heads.has_value() && !options.head_dim.has_value()) {
    return std::optional<int64_t>();
  }
  if (!options.num_kv_heads.has_value() || !options.head_dim.has_value()) {
    return InvalidArgument(
        kBadOption, "num_kv_heads or head_dim is missing; must be given both");
  }
  int64_t bytes = 2;  // Keys and values.
  for (const auto& [name, value] :
       {std::pair("num_kv_heads", *options.num_kv_heads),
        std::pair("head_dim", *options.head_dim),
        std::pair("dtype_bytes", options.dtype_bytes)}) {
    // So that bytes of up to 2^31 rows fit int64.
    constexpr int64_t kMost = 1 << 10;
    if (value < 1 || value > kMost) {
      return InvalidArgument(
          kBadOption,
          absl::StrCat(name, " is ", value, "; must be in [1, ", kMost, "]"));
    }
    bytes *= value;
  }
  return std::optional<int64_t>(bytes);
}

absl::Status FillReport(PackedLengths lengths, const PlanOptions& options,
                        PlanReport& report) {
  const int cp_size = static_cast<int>(options.cp_size);
  if (options.auto_pad) {
    CF_RETURN_IF_ERROR(
        AutoPad(PadRuleOf(report.spec, cp_size), lengths.num_rows(), lengths));
  }
  const auto start = std::chrono::steady_clock::now();
  CF_ASSIGN_OR_RETURN(report.plan, PlanShards(lengths, report.spec, cp_size));
  const TransferTable transfers(report.plan, report.spec.mask);
  report.plan_ms = std::chrono::duration<double, std::milli>(
                       std::chrono::steady_clock::now() - start)
                       .count();
  if (options.verify) {
    CF_RETURN_IF_ERROR(VerifyPlan(report.plan));
    report.verified = true;
  }
  MeasurePlan(transfers, report);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PlanReport>> MakeReports(
    const PlanOptions& options, const PackedLengths& lengths) {
  CF_ASSIGN_OR_RETURN(const std::vector<LayoutSpec> specs, SpecsOf(options));
  CF_ASSIGN_OR_RETURN(const std::optional<int64_t> kv_row_bytes,
                      KvRowBytes(options));
  CF_RETURN_IF_ERROR(CheckLengths(lengths).status());
  std::vector<PlanReport> reports;
  for (const LayoutSpec& spec : specs) {
    PlanReport report{.spec = spec, .kv_row_bytes = kv_row_bytes};
    report.status = FillReport(lengths, options, report);
    reports.push_back(std::move(report));
  }
  return reports;
}

void PrintText(const PlanOptions& options, const PackedLengths& lengths,
               const std::vector<PlanReport>& reports, std::ostream& out) {
  const auto sum = [](const std::vector<int64_t>& values) {
    return std::accumulate(values.begin(), values.end(), int64_t{0});
  };
  const int64_t num_tokens = sum(lengths.real);
  out << "sequences " << lengths.num_sequences() << ", rows "
      << lengths.num_rows() << ", tokens " << num_tokens << ", padding "
      << sum(lengths.padded) - num_tokens << ", cp_size " << options.cp_size
      << "\n\n"
      << LayoutTable(reports);
  for (const PlanReport& report : reports) {
    if (!report.status.ok()) continue;
    if (reports.size() == 1) out << "\n" << RankTable(report);
    if (options.segments) {
      out << "\n"
          << LayoutName(report.spec.layout) << "\n"
          << SegmentLines(report.plan);
    }
  }
}

void PrintJson(const PlanOptions& options,
               const std::vector<PlanReport>& reports, std::ostream& out) {
  Json layouts = Json::array();
  for (const PlanReport& report : reports) {
    layouts.push_back(PlanReportJson(report, options.segments));
  }
  out << Json{{"layouts", std::move(layouts)}} << "\n";
}

int PrintError(const PlanOptions& options, const absl::Status& status,
               std::ostream& out) {
  return ReportError("cpfeed plan", status, options.json, out, std::cerr);
}

// A failure counts more than a refusal, and a refusal only where there is no
// plan at all.
int ExitStatusOfAll(const std::vector<PlanReport>& reports) {
  bool planned = false;
  for (const PlanReport& report : reports) {
    if (ExitStatusOf(report.status) == kExitFailure) return kExitFailure;
    planned |= report.status.ok();
  }
  return planned ? kExitOk : kExitRefused;
}

}  // namespace

int RunPlan(const PlanOptions& options, std::ostream& out) {
  const auto lengths = ReadLengthsFile(options.lengths);
  if (!lengths.ok()) return PrintError(options, lengths.status(), out);
  const auto reports = MakeReports(options, *lengths);
  if (!reports.ok()) return PrintError(options, reports.status(), out);
  if (reports->size() == 1 && !reports->front().status.ok()) {
    return PrintError(options, reports->front().status, out);
  }
  if (!options.html.empty()) {
    const std::string page =
        PlanPage(absl::StrCat("cpfeed plan on ", options.cp_size, " ranks"),
                 *lengths, *reports);
    const absl::Status written = WritePage(options.html, page);
    if (!written.ok()) return PrintError(options, written, out);
  }
  if (options.json) {
    PrintJson(options, *reports, out);
  } else {
    PrintText(options, *lengths, *reports, out);
  }
  return ExitStatusOfAll(*reports);
}

void RegisterPlan(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* plan = app.add_subcommand(
      "plan", "Who would get which tokens, and how good is that?");
  plan->add_option("--lengths", options->lengths,
                   "One length a line, or JSON: a list, a list for each row, "
                   "or {\"seq_lens\", \"seq_lens_padded\"}; - is the standard "
                   "input")
      ->required()
      ->type_name("FILE");
  plan->add_option("--cp_size", options->cp_size, "Ranks of the group")
      ->required();
  plan->add_option("--layout", options->layouts,
                   "Layouts to compare, by comma, in either case")
      ->delimiter(',')
      ->capture_default_str();
  plan->add_flag("--uneven", options->uneven,
                 "CONTIGUOUS: tokens need not divide by cp_size");
  plan->add_option("--stripe_width", options->stripe_width,
                   "STRIPED: tokens of a stripe")
      ->capture_default_str();
  plan->add_option("--chunk_size", options->chunk_size,
                   "CHUNK_GREEDY: tokens of a chunk")
      ->capture_default_str();
  plan->add_flag("--keep_padding", options->keep_padding,
                 "BALANCED: keep slot padding, as rows without weight");
  plan->add_option("--token_multiple", options->token_multiple,
                   "BALANCED: round the rows of every rank up to a multiple")
      ->capture_default_str();
  plan->add_option("--objective", options->objective,
                   "BALANCED: what is balanced, area or tile; auto is tile "
                   "from 128 ranks on")
      ->capture_default_str();
  plan->add_option("--mask", options->mask,
                   "What costs are counted under: causal, full or window")
      ->capture_default_str();
  plan->add_option("--window_left", options->window_left,
                   "--mask window: keys before its own that a query sees");
  plan->add_option("--linear_cost", options->linear_cost,
                   "What a token costs beside attention, in query-key pairs")
      ->capture_default_str();
  plan->add_flag("--auto_pad", options->auto_pad,
                 "Let slots grow until a layout's rule holds");
  plan->add_option("--num_kv_heads", options->num_kv_heads,
                   "With --head_dim: give traffic in bytes too");
  plan->add_option("--head_dim", options->head_dim, "Elements of a head");
  plan->add_option("--dtype_bytes", options->dtype_bytes,
                   "Bytes of an element of keys and values")
      ->capture_default_str();
  plan->add_flag("--verify", options->verify,
                 "Check each plan by another code path");
  plan->add_flag("--segments", options->segments, "Print each rank's segments");
  plan->add_option("--html", options->html,
                   "Also write a page with pictures: who holds what, and bars "
                   "beside what is possible")
      ->type_name("FILE");
  plan->add_flag("--json", options->json, "Print JSON");
  plan->footer(
      "Examples:\n"
      "  printf '8\\n4\\n' | cpfeed plan --lengths - --cp_size 2 --segments\n"
      "  cpfeed plan --lengths lengths.json --cp_size 8 --auto_pad \\\n"
      "      --layout head_tail_per_sequence,ptrr,chunk_greedy --verify\n"
      "  cpfeed plan --lengths lengths.json --cp_size 8 \\\n"
      "      --layout balanced,ptrr --auto_pad --html plan.html\n"
      "Exit status: 0; 2 where options or lengths are wrong or every layout\n"
      "refuses them; 1 where something failed.");
  plan->callback([&run, options] {
    run = [options] { return RunPlan(*options, std::cout); };
  });
}

}  // namespace cpfeed
