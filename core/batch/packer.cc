#include "core/batch/packer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/packer_strategy.h"

namespace cpfeed {
namespace {

// About as many sequences can be held over: a sequence is held only where no
// kept row has room for it. So a position has a bound too.
constexpr int64_t kMaxRoundRows = 4096;

// Tokens [begin, end) of `document`, which go on behind `end`.
Document Piece(const Document& document, int64_t begin, int64_t end) {
  const auto slice = [&](const std::vector<int64_t>& values) {
    return std::vector<int64_t>(values.begin() + begin, values.begin() + end);
  };
  Document piece;
  piece.input_ids = slice(document.input_ids);
  if (document.labels) piece.labels = slice(*document.labels);
  piece.next_token = end < static_cast<int64_t>(document.input_ids.size())
                         ? std::optional<int64_t>(document.input_ids[end])
                         : document.next_token;
  return piece;
}

std::vector<Document> Cut(const Document& document, int64_t width) {
  std::vector<Document> pieces;
  const auto size = static_cast<int64_t>(document.input_ids.size());
  for (int64_t begin = 0; begin < size; begin += width) {
    pieces.push_back(Piece(document, begin, std::min(begin + width, size)));
  }
  return pieces;
}

}  // namespace

absl::StatusOr<Packer> Packer::Create(const PackOptions& options) {
  CF_RETURN_IF_ERROR(ValidatePackOptions(options));
  return Packer(options);
}

Packer::Packer(const PackOptions& options) : options_(options) {
  const int64_t batch_tokens = options.rows * options.row_width;
  const int64_t batches = std::min(options.lookahead_tokens / batch_tokens,
                                   kMaxRoundRows / options.rows);
  round_tokens_ = std::max<int64_t>(1, batches) * batch_tokens;
}

absl::StatusOr<std::vector<Document>> Packer::Fit(Document document) {
  std::vector<int64_t>& ids = document.input_ids;
  if (document.labels && document.labels->size() != ids.size()) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat("document has ", document.labels->size(), " labels and ",
                     ids.size(), " tokens; must have one label for each"));
  }
  if (document.loss_mask) {
    return InvalidArgument(kMaskNotSupported,
                           "document has a loss_mask; must have labels of "
                           "-100 where no label counts");
  }
  std::vector<Document> pieces;
  if (ids.empty()) {
    ++losses_.empty_documents;
    return pieces;
  }
  if (options_.end_token_id && !document.labels && !document.next_token &&
      ids.back() != *options_.end_token_id) {
    ids.push_back(*options_.end_token_id);
  }
  const auto size = static_cast<int64_t>(ids.size());
  if (size <= options_.row_width) {
    pieces.push_back(std::move(document));
  } else if (options_.long_documents == LongDocuments::kCut) {
    ++losses_.cut_documents;
    pieces = Cut(document, options_.row_width);
  } else if (options_.long_documents == LongDocuments::kDrop) {
    ++losses_.dropped_documents;
    losses_.dropped_tokens += size;
  } else {
    return InvalidArgument(
        kBatchTooLarge,
        absl::StrCat("document has ", size,
                     " tokens with its end token; must be at most row_width = ",
                     options_.row_width,
                     ", unless long documents are dropped or cut"));
  }
  return pieces;
}

absl::StatusOr<int64_t> Packer::Add(Document document) {
  CF_ASSIGN_OR_RETURN(std::vector<Document> pieces, Fit(std::move(document)));
  for (Document& piece : pieces) Enqueue(std::move(piece));
  return static_cast<int64_t>(pieces.size());
}

void Packer::Enqueue(Document document) {
  const int64_t number = next_number_++;
  const int64_t slot = RoundUp(static_cast<int64_t>(document.input_ids.size()),
                               options_.slot_multiple);
  Sequence sequence{number, slot, std::move(document)};
  if (number >= first_new_) {
    incoming_.push_back(std::move(sequence));
  } else if (std::binary_search(held_.begin(), held_.end(), number)) {
    round_used_ += slot;
    round_.push_back(std::move(sequence));
  }
}

std::optional<PackedRows> Packer::Next() {
  while (ready_.empty()) {
    if (!FillRound() && !(flushing_ && !round_.empty())) {
      flushing_ = false;
      return std::nullopt;
    }
    PackRound();
    if (ready_.empty()) BeginRound();
  }
  PackedRows packed = TakeBatch();
  if (ready_.empty()) BeginRound();
  return packed;
}

bool Packer::FillRound() {
  while (!incoming_.empty() &&
         round_used_ + incoming_.front().slot <= round_tokens_) {
    round_used_ += incoming_.front().slot;
    round_.push_back(std::move(incoming_.front()));
    incoming_.pop_front();
  }
  return !incoming_.empty();
}

void Packer::BeginRound() {
  held_.clear();
  for (const Sequence& sequence : round_) held_.push_back(sequence.number);
  first_new_ = incoming_.empty() ? next_number_ : incoming_.front().number;
  batches_taken_ = 0;
}

std::vector<Packer::Row> Packer::AssignRound() {
  std::vector<int64_t> slots;
  for (const Sequence& sequence : round_) slots.push_back(sequence.slot);
  std::vector<Row> rows;
  for (const std::vector<int64_t>& indices :
       AssignToRows(slots, options_.row_width, options_.strategy)) {
    Row& row = rows.emplace_back();
    for (const int64_t i : indices) row.push_back(std::move(round_[i]));
  }
  round_.clear();
  round_used_ = 0;
  return rows;
}

// From heavy to light, so that rows of one batch are alike.
void Packer::SortByArea(std::vector<Row>& rows) {
  const auto area = [](const Row& row) {
    int64_t pairs = 0;
    for (const Sequence& sequence : row) {
      const auto tokens =
          static_cast<int64_t>(sequence.document.input_ids.size());
      pairs += tokens * (tokens + 1) / 2;
    }
    return pairs;
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    return area(a) > area(b);
  });
}

std::vector<Packer::Row> Packer::SplitOff(std::vector<Row>& rows,
                                          int64_t keep) const {
  const auto age = [](const Row& row) { return row.front().number; };
  if (options_.strategy != PackStrategy::kFirstFit) {
    // What was held over goes now, so that nothing waits for ever; then the
    // fullest rows.
    const auto used = [](const Row& row) {
      int64_t sum = 0;
      for (const Sequence& sequence : row) sum += sequence.slot;
      return sum;
    };
    const auto key = [&](const Row& row) {
      return age(row) < first_new_ ? std::pair<int64_t, int64_t>(0, age(row))
                                   : std::pair<int64_t, int64_t>(1, -used(row));
    };
    std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
      return key(a) < key(b);
    });
  }
  std::vector<Row> others(std::make_move_iterator(rows.begin() + keep),
                          std::make_move_iterator(rows.end()));
  rows.resize(keep);
  if (options_.strategy == PackStrategy::kBalanced) {
    SortByArea(rows);
  } else {
    std::sort(rows.begin(), rows.end(),
              [&](const Row& a, const Row& b) { return age(a) < age(b); });
  }
  return others;
}

void Packer::HoldOver(std::vector<Row> rows) {
  for (Row& row : rows) {
    for (Sequence& sequence : row) {
      round_used_ += sequence.slot;
      round_.push_back(std::move(sequence));
    }
  }
  std::sort(
      round_.begin(), round_.end(),
      [](const Sequence& a, const Sequence& b) { return a.number < b.number; });
}

void Packer::Drop(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    for (const Sequence& sequence : row) {
      ++losses_.dropped_documents;
      losses_.dropped_tokens +=
          static_cast<int64_t>(sequence.document.input_ids.size());
    }
  }
}

void Packer::PackRound() {
  std::vector<Row> rows = AssignRound();
  const auto num_rows = static_cast<int64_t>(rows.size());
  if (!incoming_.empty()) {
    // What does not fit the round any more fits a row, so the round fills at
    // least as many rows as it may give away.
    const int64_t keep = round_tokens_ / options_.row_width;
    CF_CHECK(keep <= num_rows);
    HoldOver(SplitOff(rows, keep));
  } else if (options_.last_batch == LastBatch::kDrop) {
    Drop(SplitOff(rows, num_rows - num_rows % options_.rows));
  } else {
    SplitOff(rows, num_rows);
  }
  batches_taken_ = std::exchange(batches_to_skip_, 0);
  const int64_t skip =
      std::min<int64_t>(batches_taken_ * options_.rows, rows.size());
  ready_.assign(std::make_move_iterator(rows.begin() + skip),
                std::make_move_iterator(rows.end()));
}

PackedRows Packer::TakeBatch() {
  std::vector<std::vector<Document>> rows;
  while (!ready_.empty() && static_cast<int64_t>(rows.size()) < options_.rows) {
    std::vector<Document>& row = rows.emplace_back();
    for (Sequence& sequence : ready_.front()) {
      row.push_back(std::move(sequence.document));
    }
    ready_.pop_front();
  }
  ++batches_taken_;
  return BuildPackedRows(rows, options_);
}

PackerPosition Packer::position() const {
  return {.held = held_,
          .next = first_new_,
          .batches_taken = batches_taken_ + batches_to_skip_};
}

void Packer::Restore(const PackerPosition& position) {
  CF_CHECK(next_number_ == 0);
  held_ = position.held;
  first_new_ = position.next;
  batches_to_skip_ = position.batches_taken;
}

}  // namespace cpfeed
