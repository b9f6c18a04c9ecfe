#include "client/worker/model/document_step.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/nll_loss.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_exception.h"

namespace cpfeed {
namespace {

constexpr int64_t kIgnored = -100;

at::Tensor TensorOf(const std::vector<int64_t>& numbers) {
  return at::from_blob(const_cast<int64_t*>(numbers.data()),
                       {static_cast<int64_t>(numbers.size())}, at::kLong)
      .clone();
}

// The document's part of the mean over `num_labels`, which may come from
// others too.
double TrainOnDocument(Decoder& model, const ExpectedSequence& document,
                       int64_t num_labels) {
  const at::Tensor logits =
      model(TensorOf(document.tokens),
            {.tensors = {{"position_ids", TensorOf(document.positions)}}});
  const at::Tensor part =
      at::nll_loss(at::log_softmax(logits, 1), TensorOf(document.labels), {},
                   at::Reduction::Sum, kIgnored) /
      static_cast<double>(num_labels);
  part.backward();
  return part.item<double>();
}

}  // namespace

absl::StatusOr<DocumentStep> TrainOnDocuments(
    Decoder& model, const std::vector<ExpectedSequence>& documents) {
  DocumentStep step;
  for (size_t d = 0; d < documents.size(); ++d) {
    const auto& labels = documents[d].labels;
    if (labels.size() != documents[d].tokens.size()) {
      return InvalidArgument(
          kBatchMalformed,
          absl::StrCat("document ", d, " has ", labels.size(), " labels for ",
                       documents[d].tokens.size(), " tokens; must be as many"));
    }
    step.num_labels +=
        std::count_if(labels.begin(), labels.end(),
                      [](int64_t label) { return label != kIgnored; });
  }
  for (size_t d = 0; d < documents.size(); ++d) {
    if (documents[d].tokens.empty()) continue;
    try {
      step.loss += TrainOnDocument(model, documents[d],
                                   std::max<int64_t>(step.num_labels, 1));
    } catch (const StatusException& error) {
      return Annotate(error.status(), absl::StrCat("document ", d));
    }
  }
  return step;
}

}  // namespace cpfeed
