// Packing as NeMo AutoModel's `pack_dataset` does it: greedy, in order.

#ifndef CPFEED_CORE_BATCH_PARITY_PACK_H_
#define CPFEED_CORE_BATCH_PARITY_PACK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/batch/parity.h"
#include "core/batch/parity_pack_sample.h"

namespace cpfeed {

// The arguments of `pack_dataset`, by their names there.
struct ParityPackOptions {
  int64_t packed_sequence_size = 0;  // S
  std::optional<int64_t> max_packs;
  int64_t padding_idx = 0;
  bool drop_long_samples = true;
  int64_t cp_size = 1;
  int64_t pad_to_multiple_of = 1;  // automodel_0_7 only.
};

// One row of S positions; [S] each, and one length a sequence.
struct ParityPack {
  std::vector<int64_t> input_ids, labels, position_ids;
  std::vector<int64_t> seq_lens, seq_lens_padded;
};

// Fills a pack with samples until one does not fit, which opens the next pack.
// A sample with loss_mask 0 at a position has label -100 there. With cp_size
// above 1 samples are first padded to a multiple of 2 * cp_size; what is left
// of a pack extends its last slot, so that sum(seq_lens_padded) is S, whether
// 2 * cp_size divides it or not.
//
// Example: samples of 3, 4, 2 and 5 tokens, S = 10
//   seq_lens 3, 4, 2  seq_lens_padded 3, 4, 3  position_ids 0 1 2 0 1 2 3 0 1 2
//   seq_lens 5        seq_lens_padded 10       position_ids 0 1 ... 9
class ParityPacker {
 public:
  // `parity` is not kNative.
  //
  // Errors (reasons):
  //   ValueError  pad_to_multiple_of is below 1 or does not divide S.
  //   TypeError   automodel_0_4 has no pad_to_multiple_of.
  //   BAD_OPTION  S, cp_size or their multiple is 2^31 or more.
  static absl::StatusOr<ParityPacker> Create(const ParityPackOptions& options,
                                             Parity parity);

  // Errors (reasons; the message has the sample's number):
  //   ValueError      The sample is longer than S and is not to be dropped.
  //   KeyError        It lacks input_ids or labels.
  //   IndexError      Padded for CP it is longer than S and nothing is in the
  //                   pack before it, or its loss_mask is too long.
  //   NOT_DIVISIBLE   Padded for CP it is longer than S. The release would
  //                   write its tokens over two packs and their lengths into
  //                   a third.
  //   SHAPE_MISMATCH  Not as many labels as tokens. The release would shift
  //                   the labels of all that follow.
  absl::Status Add(const ParitySample& sample);

  // Closes the last pack.
  //
  // Errors (reasons):
  //   ValueError  There is no pack at all.
  absl::Status Finish();

  // True when max_packs are there; further samples are ignored.
  bool done() const { return done_; }

  // The packs that were closed since the last call. Each call of Add closes at
  // most one, and its sample then opens the next.
  std::vector<ParityPack> TakePacks();

 private:
  struct PaddedSample {
    std::vector<int64_t> input_ids, labels;
    int64_t padded = 0;
  };

  ParityPacker(const ParityPackOptions& options, int64_t slot_multiple);

  absl::StatusOr<PaddedSample> Read(const ParitySample& sample) const;
  absl::Status CloseBefore(PaddedSample next);
  void Close();
  bool Full() const;

  ParityPackOptions options_;
  int64_t slot_multiple_ = 1;
  int64_t num_samples_ = 0;
  int64_t num_packs_ = 0;
  bool done_ = false;
  std::vector<PaddedSample> open_;
  int64_t open_tokens_ = 0;  // Sum of their padded lengths.
  std::vector<ParityPack> closed_;
};

// All at once.
//
// Errors: those of ParityPacker.
absl::StatusOr<std::vector<ParityPack>> PackDataset(
    absl::Span<const ParitySample> samples, const ParityPackOptions& options,
    Parity parity);

}  // namespace cpfeed

#endif  // CPFEED_CORE_BATCH_PARITY_PACK_H_
