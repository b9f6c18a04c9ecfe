#include "client/documents/batch_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/document.h"

namespace cpfeed {
namespace {

using Json = nlohmann::json;

// Sequence numbers beyond it are no state of ours.
constexpr int64_t kMaxNumber = int64_t{1} << 40;

// Differs for options that give other batches.
std::string OptionsDigest(const BatchSourceOptions& options) {
  const PackOptions& pack = options.pack;
  DigestBuilder digest;
  digest.UpdateInt64(
      {pack.row_width, pack.rows, pack.slot_multiple,
       static_cast<int64_t>(pack.strategy), pack.lookahead_tokens,
       static_cast<int64_t>(pack.long_documents),
       static_cast<int64_t>(pack.row_tail),
       static_cast<int64_t>(pack.last_batch), pack.end_token_id.has_value(),
       pack.end_token_id.value_or(0), pack.padding_token_id, pack.position_ids,
       static_cast<int64_t>(options.parity), options.cp_size});
  return absl::StrCat(absl::Hex(digest.Finish()));
}

absl::Status BadState(absl::string_view message) {
  return InvalidArgument(kBadOption, message);
}

absl::StatusOr<int64_t> NumberIn(const Json& json, absl::string_view what) {
  if (json.is_number_integer()) {
    const bool negative = !json.is_number_unsigned() && json.get<int64_t>() < 0;
    if (!negative && json.get<uint64_t>() <= kMaxNumber) {
      return json.get<int64_t>();
    }
  }
  return BadState(
      absl::StrCat(what, " of the state is no integer in [0, 2^40]"));
}

// The reverse of what State writes: differences, the first one from -1.
absl::StatusOr<PackerPosition> ParsePosition(const Json& state) {
  PackerPosition position;
  for (const char* name : {"held", "next", "batches_taken"}) {
    if (!state.contains(name)) {
      return BadState(absl::StrCat("state has no ", name));
    }
  }
  if (!state["held"].is_array())
    return BadState("held of the state is no list");
  int64_t number = -1;
  for (const Json& json : state["held"]) {
    CF_ASSIGN_OR_RETURN(const int64_t difference, NumberIn(json, "held"));
    number += difference;
    if (difference < 1 || number > kMaxNumber) {
      return BadState("held of the state does not ascend below 2^40");
    }
    position.held.push_back(number);
  }
  CF_ASSIGN_OR_RETURN(position.next, NumberIn(state["next"], "next"));
  CF_ASSIGN_OR_RETURN(position.batches_taken,
                      NumberIn(state["batches_taken"], "batches_taken"));
  if (position.next <= number) {
    return BadState(absl::StrCat("next of the state is ", position.next,
                                 "; must be above all held, up to ", number));
  }
  return position;
}

absl::Status FlushBatcher(Packer& packer) {
  packer.Flush();
  return absl::OkStatus();
}
absl::Status FlushBatcher(ParityBatcher& batcher) { return batcher.Flush(); }

}  // namespace

absl::StatusOr<BatchSource::Batcher> BatchSource::MakeBatcher(
    const BatchSourceOptions& options) {
  if (options.parity == Parity::kNative) {
    CF_ASSIGN_OR_RETURN(Packer packer, Packer::Create(options.pack));
    return Batcher(std::move(packer));
  }
  CF_ASSIGN_OR_RETURN(
      ParityBatcher batcher,
      ParityBatcher::Create(options.pack, options.cp_size, options.parity));
  return Batcher(std::move(batcher));
}

absl::StatusOr<std::unique_ptr<BatchSource>> BatchSource::Create(
    std::unique_ptr<DocumentStore> store, const BatchSourceOptions& options) {
  CF_ASSIGN_OR_RETURN(Batcher batcher, MakeBatcher(options));
  CF_ASSIGN_OR_RETURN(
      auto source,
      DocumentSource::Create(std::move(store),
                             {.shuffle = options.shuffle,
                              .seed = options.seed,
                              .epochs = options.epochs,
                              .max_tokens = options.pack.row_width,
                              .long_documents = options.pack.long_documents}));
  return std::unique_ptr<BatchSource>(
      new BatchSource(std::move(source), options, std::move(batcher)));
}

BatchSource::BatchSource(std::unique_ptr<DocumentSource> source,
                         const BatchSourceOptions& options, Batcher batcher)
    : source_(std::move(source)),
      options_(options),
      batcher_(std::move(batcher)) {}

absl::StatusOr<std::optional<SourceBatch>> BatchSource::Next() {
  while (true) {
    std::optional<PackedRows> rows =
        std::visit([](auto& batcher) { return batcher.Next(); }, batcher_);
    if (rows) {
      ForgetEntries();
      epoch_began_ = true;
      totals_ += rows->counts;
      return std::optional<SourceBatch>({.batch = std::move(rows->batch),
                                         .counts = rows->counts,
                                         .epoch = source_->place().epoch});
    }
    if (epoch_read_) {
      CF_RETURN_IF_ERROR(EndEpoch());
      if (!source_->NextEpoch()) return std::optional<SourceBatch>();
      epoch_read_ = epoch_began_ = false;
    }
    CF_RETURN_IF_ERROR(AddDocument());
  }
}

absl::Status BatchSource::AddDocument() {
  const DocumentPlace place = source_->place();
  absl::StatusOr<std::optional<Document>> document = source_->Next();
  if (!document.ok()) {
    // The release's packer would have raised this.
    return options_.parity != Parity::kNative &&
                   ReasonOf(document.status()) == kBatchTooLarge
               ? PythonError("ValueError", document.status().message())
               : document.status();
  }
  if (!document->has_value()) {
    epoch_read_ = true;
    return std::visit([](auto& batcher) { return FlushBatcher(batcher); },
                      batcher_);
  }
  const absl::StatusOr<int64_t> added = std::visit(
      [&](auto& batcher) { return batcher.Add(**std::move(document)); },
      batcher_);
  if (!added.ok()) return Annotate(added.status(), source_->LastName());
  if (*added > 0) entries_.push_back({next_number_, place});
  next_number_ += *added;
  return absl::OkStatus();
}

absl::Status BatchSource::EndEpoch() {
  if (epoch_began_) return absl::OkStatus();
  const PackLosses lost = losses();
  return InvalidArgument(
      kBatchMalformed,
      absl::StrCat("epoch ", source_->place().epoch,
                   " of the inputs makes no batch (", lost.empty_documents,
                   " documents were empty, ", lost.dropped_documents,
                   " were dropped); must make at least one"));
}

PackerPosition BatchSource::position() const {
  return std::visit([](const auto& batcher) { return batcher.position(); },
                    batcher_);
}

void BatchSource::ForgetEntries() {
  const PackerPosition at = position();
  const int64_t first = at.held.empty() ? at.next : at.held.front();
  while (entries_.size() > 1 && entries_[1].number <= first) {
    entries_.pop_front();
  }
  // The only entry is not needed where all its sequences are taken.
  if (entries_.size() == 1 && first == next_number_) entries_.pop_front();
}

std::string BatchSource::State() const {
  const PackerPosition at = position();
  const int64_t base =
      entries_.empty() ? next_number_ : entries_.front().number;
  const DocumentPlace& place =
      entries_.empty() ? source_->place() : entries_.front().place;
  Json held = Json::array();
  int64_t previous = base - 1;
  for (const int64_t number : at.held) {
    held.push_back(number - previous);
    previous = number;
  }
  return Json({{"version", 1},
               {"options", OptionsDigest(options_)},
               {"documents", source_->StateAt(place)},
               {"held", held},
               {"next", at.next - base},
               {"batches_taken", at.batches_taken}})
      .dump();
}

absl::Status BatchSource::Restore(absl::string_view state) {
  const Json json = Json::parse(state.begin(), state.end(), nullptr,
                                /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("version", Json()) != 1) {
    return BadState("state is no JSON object of version 1");
  }
  const std::string ours = OptionsDigest(options_);
  if (json.value("options", Json()) != ours) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, kCursorMismatch,
        absl::StrCat("state was taken with other options for packing: digest ",
                     json.value("options", Json()).dump(), "; must be ",
                     Json(ours).dump(), " as here"));
  }
  const Json documents = json.value("documents", Json());
  if (!documents.is_string()) return BadState("state has no documents");
  CF_ASSIGN_OR_RETURN(const PackerPosition at, ParsePosition(json));
  CF_ASSIGN_OR_RETURN(Batcher batcher, MakeBatcher(options_));
  CF_RETURN_IF_ERROR(source_->Restore(documents.get<std::string>()));
  batcher_ = std::move(batcher);
  std::visit([&](auto& restored) { restored.Restore(at); }, batcher_);
  entries_.clear();
  next_number_ = 0;
  epoch_read_ = false;
  epoch_began_ = true;
  return absl::OkStatus();
}

PackLosses BatchSource::losses() const {
  PackLosses sum = std::visit(
      [](const auto& batcher) { return batcher.losses(); }, batcher_);
  const PackLosses& read = source_->losses();
  sum.dropped_documents += read.dropped_documents;
  sum.dropped_tokens += read.dropped_tokens;
  sum.cut_documents += read.cut_documents;
  sum.empty_documents += read.empty_documents;
  return sum;
}

}  // namespace cpfeed
