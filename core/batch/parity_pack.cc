#include "core/batch/parity_pack.h"

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
constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();

absl::Status BelowLimit(absl::string_view name, int64_t value) {
  if (value <= kMaxSize) return absl::OkStatus();
  return InvalidArgument(
      kBadOption, absl::StrCat(name, " is ", value, "; must be below 2^31"));
}

// What each sample is padded to a multiple of.
absl::StatusOr<int64_t> SlotMultiple(const ParityPackOptions& options) {
  const int64_t cp_multiple = options.cp_size > 1 ? 2 * options.cp_size : 1;
  const int64_t multiple = std::lcm(cp_multiple, options.pad_to_multiple_of);
  CF_RETURN_IF_ERROR(BelowLimit("multiple of slots", multiple));
  return multiple;
}

absl::Status ApplyLossMask(const ParitySample& sample,
                           std::vector<int64_t>& labels) {
  const ParityField* mask = sample.Find("loss_mask");
  if (mask == nullptr) return absl::OkStatus();
  for (size_t i = 0; i < mask->values.size(); ++i) {
    if (mask->values[i] != 0) continue;
    if (i >= labels.size()) {
      return PythonError("IndexError",
                         absl::StrCat("loss_mask has ", mask->values.size(),
                                      " entries; must have one for each of ",
                                      labels.size(), " labels"));
    }
    labels[i] = kIgnoreLabel;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ParityPacker> ParityPacker::Create(
    const ParityPackOptions& options, Parity parity) {
  CF_CHECK(parity != Parity::kNative);
  if (parity == Parity::kAutomodel04 && options.pad_to_multiple_of != 1) {
    return PythonError(
        "TypeError",
        absl::StrCat("pad_to_multiple_of is ", options.pad_to_multiple_of,
                     "; automodel_0_4 has no such argument"));
  }
  if (options.pad_to_multiple_of < 1 ||
      options.packed_sequence_size % options.pad_to_multiple_of != 0) {
    return PythonError(
        "ValueError",
        absl::StrCat("packed_sequence_size is ", options.packed_sequence_size,
                     "; must be divisible by a positive "
                     "pad_to_multiple_of, which is ",
                     options.pad_to_multiple_of));
  }
  CF_RETURN_IF_ERROR(
      BelowLimit("packed_sequence_size", options.packed_sequence_size));
  CF_RETURN_IF_ERROR(BelowLimit("cp_size", options.cp_size));
  CF_RETURN_IF_ERROR(
      BelowLimit("pad_to_multiple_of", options.pad_to_multiple_of));
  CF_ASSIGN_OR_RETURN(const int64_t multiple, SlotMultiple(options));
  return ParityPacker(options, multiple);
}

ParityPacker::ParityPacker(const ParityPackOptions& options,
                           int64_t slot_multiple)
    : options_(options), slot_multiple_(slot_multiple) {}

bool ParityPacker::Full() const {
  return options_.max_packs && num_packs_ == *options_.max_packs;
}

absl::StatusOr<ParityPacker::PaddedSample> ParityPacker::Read(
    const ParitySample& sample) const {
  PaddedSample read;
  CF_ASSIGN_OR_RETURN(read.input_ids, sample.List("input_ids"));
  CF_ASSIGN_OR_RETURN(read.labels, sample.List("labels"));
  CF_RETURN_IF_ERROR(ApplyLossMask(sample, read.labels));
  read.padded =
      RoundUp(static_cast<int64_t>(read.input_ids.size()), slot_multiple_);
  return read;
}

absl::Status ParityPacker::Add(const ParitySample& sample) {
  if (done_) return absl::OkStatus();
  const std::string place = absl::StrCat("sample ", num_samples_++);
  absl::StatusOr<PaddedSample> read = Read(sample);
  if (!read.ok()) return Annotate(read.status(), place);
  const auto size = static_cast<int64_t>(read->input_ids.size());
  if (size > options_.packed_sequence_size) {
    if (options_.drop_long_samples) return absl::OkStatus();
    return PythonError(
        "ValueError",
        absl::StrCat(place, " is too long: it has ", size,
                     " tokens; must be at most packed_sequence_size = ",
                     options_.packed_sequence_size));
  }
  if (read->labels.size() != read->input_ids.size()) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat(place, " has ", read->labels.size(), " labels and ", size,
                     " tokens; must have one label for each"));
  }
  if (open_tokens_ + read->padded > options_.packed_sequence_size && !Full()) {
    const absl::Status status = CloseBefore(*std::move(read));
    if (!status.ok()) return Annotate(status, place);
  } else {
    open_tokens_ += read->padded;
    open_.push_back(*std::move(read));
  }
  done_ = Full();
  return absl::OkStatus();
}

absl::Status ParityPacker::CloseBefore(PaddedSample next) {
  const std::string too_long =
      absl::StrCat("has ", next.padded, " tokens when padded to a multiple of ",
                   slot_multiple_, "; must be at most packed_sequence_size = ",
                   options_.packed_sequence_size);
  if (open_tokens_ == 0) return PythonError("IndexError", too_long);
  Close();
  if (next.padded > options_.packed_sequence_size && !Full()) {
    return InvalidArgument(kNotDivisible, too_long);
  }
  open_tokens_ = next.padded;
  open_.push_back(std::move(next));
  return absl::OkStatus();
}

void ParityPacker::Close() {
  const int64_t size = options_.packed_sequence_size;
  ParityPack pack;
  pack.input_ids.assign(size, options_.padding_idx);
  pack.labels.assign(size, kIgnoreLabel);
  pack.position_ids.resize(size);
  int64_t at = 0;
  for (const PaddedSample& sample : open_) {
    std::copy(sample.input_ids.begin(), sample.input_ids.end(),
              pack.input_ids.begin() + at);
    std::copy(sample.labels.begin(), sample.labels.end(),
              pack.labels.begin() + at);
    const auto position = pack.position_ids.begin() + at;
    std::iota(position, position + sample.padded, 0);
    pack.seq_lens.push_back(static_cast<int64_t>(sample.input_ids.size()));
    pack.seq_lens_padded.push_back(sample.padded);
    at += sample.padded;
  }
  // The release clamps these to size - 1, which they cannot exceed: they count
  // on from a position inside the pack.
  std::iota(pack.position_ids.begin() + at, pack.position_ids.end(),
            pack.position_ids[at - 1] + 1);
  pack.seq_lens_padded.back() += size - at;
  closed_.push_back(std::move(pack));
  ++num_packs_;
  open_.clear();
  open_tokens_ = 0;
}

absl::Status ParityPacker::Finish() {
  if (open_tokens_ > 0 &&
      (!options_.max_packs || num_packs_ < *options_.max_packs)) {
    Close();
  }
  if (num_packs_ > 0) return absl::OkStatus();
  return PythonError(
      "ValueError",
      absl::StrCat("no packs were produced from ", num_samples_,
                   " samples; at least one must fit packed_sequence_size = ",
                   options_.packed_sequence_size));
}

std::vector<ParityPack> ParityPacker::TakePacks() {
  return std::exchange(closed_, {});
}

absl::StatusOr<std::vector<ParityPack>> PackDataset(
    absl::Span<const ParitySample> samples, const ParityPackOptions& options,
    Parity parity) {
  CF_ASSIGN_OR_RETURN(ParityPacker packer,
                      ParityPacker::Create(options, parity));
  for (const ParitySample& sample : samples) {
    CF_RETURN_IF_ERROR(packer.Add(sample));
  }
  CF_RETURN_IF_ERROR(packer.Finish());
  return packer.TakePacks();
}

}  // namespace cpfeed
