// What a step of the model job was like, for people and programs.

#ifndef CPFEED_CLIENT_WORKER_MODEL_MODEL_REPORT_H_
#define CPFEED_CLIENT_WORKER_MODEL_MODEL_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

namespace cpfeed {

struct ModelStepReport {
  int64_t step = 0;
  int64_t documents = 0;  // Sequences with at least one token.
  int64_t tokens = 0;     // Real ones.
  int64_t labels = 0;     // Those that are not -100.
  double loss = 0;        // Mean over the labels.
  // Beside one device; nothing where it was not compared.
  std::optional<double> one_device_loss;
  std::optional<double> loss_difference;      // Relative.
  std::optional<double> gradient_difference;  // Relative: CompareGradients.
};

// An object with these names, null for what is not there; one line without its
// end.
std::string ModelStepJson(const ModelStepReport& report);

// The same as a line of a table under ModelStepHeadings.
std::string ModelStepText(const ModelStepReport& report);
std::string ModelStepHeadings();

// All steps together.
struct ModelSummary {
  int64_t steps = 0;
  double first_loss = 0;
  double last_loss = 0;  // Mean of the last five.
  // The largest, relative; nothing where nothing was compared.
  std::optional<double> loss_difference;
  std::optional<double> gradient_difference;  // Of the first and last step.
};

// {"status": "OK", "steps", "ranks", ...}, and "OK: 60 steps, 2 ranks, ...".
std::string ModelSummaryJson(const ModelSummary& summary, int ranks);
std::string ModelSummaryText(const ModelSummary& summary, int ranks);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_MODEL_MODEL_REPORT_H_
