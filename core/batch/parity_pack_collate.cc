#include "core/batch/parity_pack_collate.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

constexpr int64_t kIgnoreLabel = -100;
constexpr int64_t kSentinel = -1000;
constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();

using Lists = std::vector<std::vector<int64_t>>;

absl::StatusOr<Lists> ListsOf(absl::Span<const ParitySample> samples,
                              absl::string_view name) {
  Lists lists;
  for (size_t i = 0; i < samples.size(); ++i) {
    absl::StatusOr<std::vector<int64_t>> list = samples[i].List(name);
    if (!list.ok()) {
      return Annotate(list.status(), absl::StrCat("sample ", i));
    }
    lists.push_back(*std::move(list));
  }
  return lists;
}

int64_t LongestOf(const Lists& lists) {
  size_t longest = 0;
  for (const auto& list : lists) longest = std::max(longest, list.size());
  return static_cast<int64_t>(longest);
}

// [B, width]; lists are not longer than `width`.
absl::StatusOr<Tensor> PadAndStack(const Lists& lists, int64_t width,
                                   int64_t fill) {
  const auto num_rows = static_cast<int64_t>(lists.size());
  const std::optional<int64_t> size = CheckedMul(num_rows, width);
  if (!size || *size > kMaxSize) {
    return InvalidArgument(kBatchTooLarge,
                           absl::StrCat("batch is ", num_rows, " * ", width,
                                        " tokens; must be below 2^31"));
  }
  std::vector<int64_t> values(*size, fill);
  auto row = values.begin();
  for (const auto& list : lists) {
    std::copy(list.begin(), list.end(), row);
    row += width;
  }
  return Tensor::FromVector({num_rows, width}, std::move(values));
}

absl::StatusOr<Tensor> Stack(const Lists& lists, absl::string_view name) {
  for (size_t i = 1; i < lists.size(); ++i) {
    if (lists[i].size() == lists[0].size()) continue;
    return PythonError("RuntimeError",
                       absl::StrCat(name, " of sample ", i, " has ",
                                    lists[i].size(), " entries; must have ",
                                    lists[0].size(), " as that of sample 0"));
  }
  if (LongestOf(lists) == 0) {  // What torch makes of empty lists.
    return Tensor::FromVector({static_cast<int64_t>(lists.size()), 0},
                              std::vector<float>());
  }
  return PadAndStack(lists, LongestOf(lists), 0);
}

int64_t PadTokenId(const ParitySample& first) {
  if (!first.pad_token_ids) return 0;
  const auto found = first.pad_token_ids->find("input_ids");
  return found == first.pad_token_ids->end() ? 0 : found->second;
}

// Makes every sample a row of one sequence.
absl::Status MakeRows(std::vector<ParitySample>& samples) {
  CF_ASSIGN_OR_RETURN(const Lists ids, ListsOf(samples, "input_ids"));
  const int64_t width = LongestOf(ids);
  const int64_t pad_token_id = PadTokenId(samples[0]);
  std::vector<int64_t> positions(width);
  std::iota(positions.begin(), positions.end(), 0);
  for (size_t i = 0; i < samples.size(); ++i) {
    ParitySample& sample = samples[i];
    auto real = static_cast<int64_t>(ids[i].size());
    const int64_t missing = width - real;
    if (const ParityField* mask = sample.Find("attention_mask")) {
      real =
          std::accumulate(mask->values.begin(), mask->values.end(), int64_t{0});
    }
    sample.Set("seq_lens", {real});
    sample.Set("seq_lens_padded", {width});
    sample.Set("position_ids", positions);
    if (missing == 0) continue;
    const auto pad = [&](absl::string_view name, int64_t fill) -> absl::Status {
      CF_ASSIGN_OR_RETURN(std::vector<int64_t> list, sample.List(name));
      list.insert(list.end(), missing, fill);
      sample.Set(name, std::move(list));
      return absl::OkStatus();
    };
    CF_RETURN_IF_ERROR(pad("input_ids", pad_token_id));
    CF_RETURN_IF_ERROR(pad("labels", kIgnoreLabel));
  }
  return absl::OkStatus();
}

// What pads a field; nothing for the last entry of the first sample's list.
std::optional<int64_t> FillOf(absl::string_view name,
                              const ParitySample& first) {
  if (first.pad_token_ids) {
    const auto found = first.pad_token_ids->find(std::string(name));
    if (found != first.pad_token_ids->end()) return found->second;
  }
  if (name == "labels") return kIgnoreLabel;
  if (name == "attention_mask" || name == "loss_mask" || name == "input_ids") {
    return 0;
  }
  return std::nullopt;
}

// One field of every sample as a tensor: [B, width].
absl::StatusOr<Tensor> PadField(absl::Span<const ParitySample> samples,
                                absl::string_view name, int64_t multiple) {
  CF_ASSIGN_OR_RETURN(const Lists lists, ListsOf(samples, name));
  std::optional<int64_t> fill = FillOf(name, samples[0]);
  if (!fill) {
    if (lists[0].empty()) {
      return PythonError("IndexError",
                         absl::StrCat(name,
                                      " of sample 0 is empty; must have "
                                      "an entry to pad with"));
    }
    fill = lists[0].back();
  }
  const int64_t longest = LongestOf(lists);
  return PadAndStack(lists, RoundUp(longest, std::max<int64_t>(multiple, 1)),
                     *fill);
}

bool IsNumberEverywhere(absl::Span<const ParitySample> samples,
                        absl::string_view name) {
  return std::all_of(samples.begin(), samples.end(),
                     [&](const ParitySample& sample) {
                       const ParityField* field = sample.Find(name);
                       return field != nullptr && !field->is_list;
                     });
}

Tensor StackNumbers(absl::Span<const ParitySample> samples,
                    absl::string_view name) {
  std::vector<int64_t> values;
  for (const ParitySample& sample : samples) {
    values.push_back(sample.Find(name)->values.front());
  }
  return Tensor::FromVector({static_cast<int64_t>(samples.size())},
                            std::move(values));
}

// True where the entry of `tensor` is `value`.
absl::StatusOr<Tensor> MaskOfEqual(const Tensor& tensor, int64_t value) {
  CF_ASSIGN_OR_RETURN(const std::vector<int64_t> values, tensor.ToInt64());
  std::vector<uint8_t> mask;
  for (const int64_t v : values) mask.push_back(v == value ? 1 : 0);
  return Tensor{.dtype = DType::kBool,
                .shape = tensor.shape,
                .bytes = Buffer::FromVector(std::move(mask))};
}

const Tensor* FindTensor(const ParityBatch& batch, absl::string_view name) {
  for (const NamedTensor& named : batch.tensors) {
    if (named.name == name) return &named.tensor;
  }
  return nullptr;
}

absl::Status AddPaddingMask(ParityBatch& batch, const ParitySample& first,
                            Parity parity) {
  const Tensor* ids = FindTensor(batch, "input_ids");
  const Tensor* mask = FindTensor(batch, "attention_mask");
  if (parity == Parity::kAutomodel07 && mask != nullptr) {
    CF_ASSIGN_OR_RETURN(Tensor padding, MaskOfEqual(*mask, 0));
    batch.tensors.push_back({"padding_mask", std::move(padding)});
  } else if (ids != nullptr) {
    CF_ASSIGN_OR_RETURN(Tensor padding, MaskOfEqual(*ids, PadTokenId(first)));
    batch.tensors.push_back({"padding_mask", std::move(padding)});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ParityBatch> PackedSequenceThdCollate(
    std::vector<ParitySample> samples) {
  ParityBatch batch;
  if (samples.empty()) return batch;
  if (samples[0].Find("seq_lens") == nullptr) {
    CF_RETURN_IF_ERROR(MakeRows(samples));
  }
  for (const char* name : {"input_ids", "labels", "position_ids"}) {
    CF_ASSIGN_OR_RETURN(const Lists lists, ListsOf(samples, name));
    CF_ASSIGN_OR_RETURN(Tensor tensor, Stack(lists, name));
    batch.tensors.push_back({name, std::move(tensor)});
  }
  for (const char* name : {"seq_lens", "seq_lens_padded"}) {
    CF_ASSIGN_OR_RETURN(const Lists lists, ListsOf(samples, name));
    CF_ASSIGN_OR_RETURN(Tensor tensor,
                        PadAndStack(lists, LongestOf(lists), kSentinel));
    batch.tensors.push_back({name, std::move(tensor)});
  }
  batch.qkv_format = "thd";
  return batch;
}

absl::StatusOr<ParityBatch> DefaultCollate(
    absl::Span<const ParitySample> samples,
    std::optional<int64_t> pad_seq_len_divisible, Parity parity) {
  CF_CHECK(parity != Parity::kNative);
  const int64_t multiple = pad_seq_len_divisible.value_or(0);
  if (multiple < 0 || multiple > kMaxSize) {
    return InvalidArgument(kBadOption,
                           absl::StrCat("pad_seq_len_divisible is ", multiple,
                                        "; must be in [0, 2^31)"));
  }
  if (samples.empty()) {
    return PythonError("IndexError",
                       "batch has no samples; must have at least one");
  }
  ParityBatch batch;
  for (const ParityField& field : samples[0].fields) {
    if (parity == Parity::kAutomodel07 &&
        IsNumberEverywhere(samples, field.name)) {
      batch.tensors.push_back({field.name, StackNumbers(samples, field.name)});
      continue;
    }
    CF_ASSIGN_OR_RETURN(Tensor tensor, PadField(samples, field.name, multiple));
    batch.tensors.push_back({field.name, std::move(tensor)});
  }
  CF_RETURN_IF_ERROR(AddPaddingMask(batch, samples[0], parity));
  return batch;
}

absl::StatusOr<ParityPack> PackFeaturesForThd(
    absl::Span<const ParitySample> features, Parity parity) {
  if (parity == Parity::kAutomodel04) {
    return PythonError("ImportError",
                       "automodel_0_4 has no pack_features_for_thd");
  }
  if (features.empty()) {
    return PythonError("ValueError",
                       "batch has no features; must have at least one");
  }
  ParityPack pack;
  for (size_t i = 0; i < features.size(); ++i) {
    const std::string place = absl::StrCat("feature ", i);
    absl::StatusOr<std::vector<int64_t>> ids = features[i].List("input_ids");
    if (!ids.ok()) return Annotate(ids.status(), place);
    const auto size = static_cast<int64_t>(ids->size());
    if (size == 0) {
      return PythonError("ValueError", absl::StrCat(place, " has no tokens"));
    }
    std::vector<int64_t> labels(size, kIgnoreLabel);
    if (features[i].Find("labels") != nullptr) {
      CF_ASSIGN_OR_RETURN(labels, features[i].List("labels"));
    }
    if (static_cast<int64_t>(labels.size()) != size) {
      return PythonError(
          "ValueError",
          absl::StrCat(place, " has ", labels.size(), " labels and ", size,
                       " tokens; must have one for each"));
    }
    pack.input_ids.insert(pack.input_ids.end(), ids->begin(), ids->end());
    pack.labels.insert(pack.labels.end(), labels.begin(), labels.end());
    for (int64_t p = 0; p < size; ++p) pack.position_ids.push_back(p);
    pack.seq_lens.push_back(size);
  }
  pack.seq_lens_padded = pack.seq_lens;
  return pack;
}

ParitySample ToSample(const ParityPack& pack) {
  ParitySample sample;
  sample.Set("input_ids", pack.input_ids);
  sample.Set("labels", pack.labels);
  sample.Set("position_ids", pack.position_ids);
  sample.Set("seq_lens", pack.seq_lens);
  sample.Set("seq_lens_padded", pack.seq_lens_padded);
  return sample;
}

}  // namespace cpfeed
