#include "client/worker/model/model_report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"

namespace cpfeed {
namespace {

nlohmann::ordered_json JsonOf(const std::optional<double>& number) {
  return number ? nlohmann::ordered_json(*number) : nullptr;
}

std::string TextOf(const std::optional<double>& number) {
  return number ? absl::StrFormat("%.2e", *number) : "-";
}

}  // namespace

std::string ModelStepJson(const ModelStepReport& report) {
  const nlohmann::ordered_json json = {
      {"step", report.step},
      {"documents", report.documents},
      {"tokens", report.tokens},
      {"labels", report.labels},
      {"loss", report.loss},
      {"one_device_loss", JsonOf(report.one_device_loss)},
      {"loss_difference", JsonOf(report.loss_difference)},
      {"gradient_difference", JsonOf(report.gradient_difference)}};
  return json.dump();
}

std::string ModelStepHeadings() {
  return absl::StrFormat("%6s %10s %9s %10s %10s %16s %16s", "step",
                         "documents", "tokens", "loss", "one device",
                         "loss difference", "gradient diff.");
}

std::string ModelStepText(const ModelStepReport& report) {
  return absl::StrFormat(
      "%6d %10d %9d %10.6f %10s %16s %16s", report.step, report.documents,
      report.tokens, report.loss,
      report.one_device_loss ? absl::StrFormat("%.6f", *report.one_device_loss)
                             : "-",
      TextOf(report.loss_difference), TextOf(report.gradient_difference));
}

std::string ModelSummaryJson(const ModelSummary& summary, int ranks) {
  const nlohmann::ordered_json json = {
      {"status", "OK"},
      {"steps", summary.steps},
      {"ranks", ranks},
      {"first_loss", summary.first_loss},
      {"last_loss", summary.last_loss},
      {"loss_difference", JsonOf(summary.loss_difference)},
      {"gradient_difference", JsonOf(summary.gradient_difference)}};
  return json.dump();
}

std::string ModelSummaryText(const ModelSummary& summary, int ranks) {
  std::string text = absl::StrFormat(
      "OK: %d steps, %d ranks, loss %.3f -> %.3f", summary.steps, ranks,
      summary.first_loss, summary.last_loss);
  if (summary.loss_difference && summary.gradient_difference) {
    absl::StrAppendFormat(&text,
                          ", max relative difference %.2e of losses, %.2e of "
                          "gradients",
                          *summary.loss_difference,
                          *summary.gradient_difference);
  }
  return text;
}

}  // namespace cpfeed
