#include "core/plan/plan_verifier.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/digest.h"
#include "core/base/status_macros.h"
#include "core/plan/check_lengths.h"
#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"
#include "core/plan/owner_formula.h"
#include "core/plan/position_set.h"
#include "core/plan/rank_plan.h"

namespace cpfeed {
namespace {

template <class... Parts>
absl::Status Broken(const Parts&... parts) {
  return absl::InternalError(absl::StrCat("plan: ", parts...));
}

std::string Place(int rank, const Segment& segment) {
  return absl::StrCat("rank ", rank, ": sequence ", segment.sequence, ": ");
}

// What the other checks stand on.
absl::Status VerifyTerms(const ShardPlan& plan) {
  if (plan.spec.layout == Layout::kUnspecified) {
    return Broken("layout is unspecified; must be resolved");
  }
  absl::Status status = CheckLayoutSpec(plan.spec, plan.cp_size);
  if (status.ok()) status = CheckLengths(plan.lengths).status();
  if (status.ok()) {
    status = CheckDivisible(plan.lengths, plan.spec, plan.cp_size);
  }
  if (!status.ok()) return Broken(status.message());
  if (plan.ranks.size() != plan.cp_size) {
    return Broken(plan.ranks.size(), " ranks; must be as many as cp_size, ",
                  plan.cp_size);
  }
  return absl::OkStatus();
}

bool KeepsPadding(const ShardPlan& plan) {
  return plan.spec.layout != Layout::kBalanced || plan.spec.keep_padding ||
         plan.cp_size == 1;
}

class Verifier {
 public:
  explicit Verifier(const ShardPlan& plan)
      : plan_(plan),
        kept_(KeepsPadding(plan) ? plan.lengths.padded : plan.lengths.real),
        slot_begin_(kept_.size() + 1, 0),
        held_(std::accumulate(kept_.begin(), kept_.end(), int64_t{0})),
        formula_(plan) {
    std::partial_sum(kept_.begin(), kept_.end(), slot_begin_.begin() + 1);
  }

  absl::Status Verify() {
    for (int rank = 0; rank < plan_.cp_size; ++rank) {
      CF_RETURN_IF_ERROR(VerifyRank(rank));
    }
    for (int64_t s = 0; s < plan_.lengths.num_sequences(); ++s) {
      const auto missing =
          held_.FirstMissing(slot_begin_[s], slot_begin_[s + 1]);
      if (missing.has_value()) {
        return Broken("sequence ", s, ": position ", *missing - slot_begin_[s],
                      " is held by no rank; must be held once");
      }
    }
    return VerifyBalance();
  }

 private:
  absl::Status VerifyRank(int rank) {
    const RankPlan& part = plan_.ranks[rank];
    int64_t rows = part.pad_rows;
    const Segment* before = nullptr;
    for (const Segment& segment : part.segments) {
      CF_RETURN_IF_ERROR(VerifyInside(rank, segment));
      if (before != nullptr) {
        CF_RETURN_IF_ERROR(VerifyOrder(rank, *before, segment));
      }
      CF_RETURN_IF_ERROR(VerifyHeldOnce(rank, segment));
      CF_RETURN_IF_ERROR(VerifyOwner(rank, segment));
      rows += segment.length;
      before = &segment;
    }
    if (part.pad_rows < 0 || rows != part.num_tokens) {
      return Broken("rank ", rank, ": num_tokens is ", part.num_tokens,
                    "; must be ", rows - part.pad_rows,
                    " rows of segments and ", part.pad_rows, " pad rows");
    }
    return absl::OkStatus();
  }

  absl::Status VerifyInside(int rank, const Segment& segment) const {
    if (segment.sequence < 0 || segment.sequence >= kept_.size()) {
      return Broken("rank ", rank, ": sequence is ", segment.sequence,
                    "; must be in [0, ", kept_.size(), ")");
    }
    const int64_t kept = kept_[segment.sequence];
    if (segment.begin < 0 || segment.length < 1 ||
        int64_t{segment.begin} + segment.length > kept) {
      return Broken(Place(rank, segment), segment.length,
                    " rows from position ", segment.begin,
                    "; must be at least 1 inside [0, ", kept, ")");
    }
    return absl::OkStatus();
  }

  absl::Status VerifyOrder(int rank, const Segment& before,
                           const Segment& segment) const {
    const int32_t end = before.begin + before.length;
    if (segment.sequence > before.sequence) return absl::OkStatus();
    if (segment.sequence < before.sequence || segment.begin < end) {
      return Broken(Place(rank, segment), "position ", segment.begin,
                    " comes behind sequence ", before.sequence, " position ",
                    end - 1, "; must ascend");
    }
    if (segment.begin == end) {
      return Broken(Place(rank, segment), "position ", segment.begin,
                    " starts a segment that touches the one before; must be "
                    "one segment");
    }
    return absl::OkStatus();
  }

  absl::Status VerifyHeldOnce(int rank, const Segment& segment) {
    const int64_t slot = slot_begin_[segment.sequence];
    const int64_t begin = slot + segment.begin;
    const auto twice = held_.Insert(begin, begin + segment.length);
    if (!twice.has_value()) return absl::OkStatus();
    return Broken(Place(rank, segment), "position ", *twice - slot,
                  " is held twice; must be held once");
  }

  absl::Status VerifyOwner(int rank, const Segment& segment) const {
    const int64_t end = int64_t{segment.begin} + segment.length;
    for (int64_t position = segment.begin; position < end;) {
      const auto owner = formula_.OwnerOf(segment.sequence, position);
      if (!owner.has_value()) return absl::OkStatus();
      if (owner->cp_rank != rank) {
        return Broken(Place(rank, segment), "position ", position, " is rank ",
                      owner->cp_rank, "'s by the layout's rule");
      }
      position = owner->end;
    }
    return absl::OkStatus();
  }

  // How many of its rows a rank has to hold.
  struct RowRange {
    int64_t least;
    int64_t most;
  };
  RowRange RowsOf(int rank) const {
    const int64_t total = slot_begin_.back();
    const int64_t share = total / plan_.cp_size;
    const int64_t rest = total % plan_.cp_size;
    if (plan_.spec.layout == Layout::kBalanced) {
      // The first ranks have one more.
      const int64_t rows = share + (rank < rest ? 1 : 0);
      return {rows, rows};
    }
    const bool may_differ = plan_.spec.layout == Layout::kContiguous &&
                            plan_.spec.uneven && rest > 0;
    return {share, share + (may_differ ? 1 : 0)};
  }

  absl::Status VerifyBalance() const {
    const bool may_pad = plan_.spec.layout == Layout::kBalanced &&
                         plan_.cp_size > 1 && plan_.spec.token_multiple > 1;
    for (int rank = 0; rank < plan_.cp_size; ++rank) {
      const RankPlan& part = plan_.ranks[rank];
      const int64_t rows = part.num_tokens - part.pad_rows;
      const RowRange range = RowsOf(rank);
      if (rows < range.least || rows > range.most) {
        return Broken("rank ", rank, ": ", rows, " rows; must be in [",
                      range.least, ", ", range.most, "]");
      }
      if (part.pad_rows != 0 && !may_pad) {
        return Broken("rank ", rank, ": ", part.pad_rows,
                      " pad rows; must be 0");
      }
      if (may_pad && (part.num_tokens % plan_.spec.token_multiple != 0 ||
                      part.num_tokens != plan_.ranks[0].num_tokens)) {
        return Broken("rank ", rank, ": ", part.num_tokens,
                      " rows with padding; must be as rank 0's and a multiple "
                      "of ",
                      plan_.spec.token_multiple);
      }
    }
    return absl::OkStatus();
  }

  const ShardPlan& plan_;
  const std::vector<int64_t>& kept_;  // Positions of each slot that are kept.
  std::vector<int64_t> slot_begin_;   // [num_sequences + 1], of kept positions.
  PositionSet held_;
  OwnerFormula formula_;
};

// The documented numbers, written down rank by rank.
uint64_t ExpectedDigest(const ShardPlan& plan) {
  const LayoutSpec& spec = plan.spec;
  std::vector<int64_t> numbers = {1, static_cast<int64_t>(spec.layout)};
  switch (spec.layout) {
    case Layout::kContiguous:
      numbers.push_back(spec.uneven);
      break;
    case Layout::kStriped:
      numbers.push_back(spec.stripe_width);
      break;
    case Layout::kChunkGreedy:
      numbers.push_back(spec.chunk_size);
      break;
    case Layout::kBalanced:
      numbers.push_back(spec.keep_padding);
      numbers.push_back(spec.token_multiple);
      break;
    default:
      break;
  }
  numbers.push_back(plan.cp_size);
  numbers.push_back(plan.lengths.num_sequences());
  DigestBuilder builder;
  builder.UpdateInt64(numbers);
  builder.UpdateInt64(plan.lengths.real);
  builder.UpdateInt64(plan.lengths.padded);
  for (const RankPlan& rank : plan.ranks) {
    numbers.resize(1 + 3 * rank.segments.size());
    auto next = numbers.begin();
    *next++ = static_cast<int64_t>(rank.segments.size());
    for (const Segment& segment : rank.segments) {
      *next++ = segment.sequence;
      *next++ = segment.begin;
      *next++ = segment.length;
    }
    builder.UpdateInt64(numbers);
  }
  return builder.Finish();
}

}  // namespace

absl::Status VerifyPlan(const ShardPlan& plan) {
  CF_RETURN_IF_ERROR(VerifyTerms(plan));
  CF_RETURN_IF_ERROR(Verifier(plan).Verify());
  const uint64_t expected = ExpectedDigest(plan);
  if (plan.digest == expected) return absl::OkStatus();
  return Broken(
      absl::StrFormat("digest is %016x; must be %016x", plan.digest, expected));
}

}  // namespace cpfeed
