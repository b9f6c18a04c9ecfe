#include "client/cli/pack_flags.h"

#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/documents/open_documents.h"
#include "client/documents/process_tokenizer.h"
#include "client/documents/tokenizer.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/packer_options.h"
#include "core/batch/packer_strategy.h"
#include "core/batch/parity.h"

namespace cpfeed {
namespace {

constexpr int64_t kMaxCpSize = 1 << 20;

// The value whose name a flag has.
template <class T, size_t N>
absl::StatusOr<T> Choose(
    absl::string_view flag, absl::string_view given,
    const std::array<std::pair<absl::string_view, T>, N>& choices) {
  std::vector<absl::string_view> names;
  for (const auto& [name, value] : choices) {
    if (name == given) return value;
    names.push_back(name);
  }
  return InvalidArgument(
      kBadOption, absl::StrCat(flag, " is \"", given, "\"; must be one of ",
                               absl::StrJoin(names, ", ")));
}

absl::Status FillChoices(const PackFlags& flags, PackOptions& pack) {
  CF_ASSIGN_OR_RETURN(pack.strategy, ParsePackStrategy(flags.strategy));
  CF_ASSIGN_OR_RETURN(
      pack.long_documents,
      (Choose<LongDocuments, 3>("long_documents", flags.long_documents,
                                {{{"refuse", LongDocuments::kRefuse},
                                  {"drop", LongDocuments::kDrop},
                                  {"cut", LongDocuments::kCut}}})));
  CF_ASSIGN_OR_RETURN(
      pack.row_tail,
      (Choose<RowTail, 3>("row_tail", flags.row_tail,
                          {{{"extend", RowTail::kExtendLastSlot},
                            {"empty_slot", RowTail::kEmptySlot},
                            {"auto_fill", RowTail::kAutoFill}}})));
  CF_ASSIGN_OR_RETURN(pack.last_batch,
                      (Choose<LastBatch, 2>("last_batch", flags.last_batch,
                                            {{{"fill", LastBatch::kFill},
                                              {"drop", LastBatch::kDrop}}})));
  return absl::OkStatus();
}

// The packer would say this of slot_multiple, which is no flag.
absl::Status CheckSizes(const PackFlags& flags, bool native) {
  if (flags.cp_size < 1 || flags.cp_size > kMaxCpSize) {
    return InvalidArgument(kBadOption,
                           absl::StrCat("cp_size is ", flags.cp_size,
                                        "; must be in [1, ", kMaxCpSize, "]"));
  }
  const int64_t multiple = 2 * flags.cp_size;
  if (native && flags.cp_size > 1 && flags.row_width % multiple != 0) {
    return InvalidArgument(
        kNotDivisible,
        absl::StrCat("row_width is ", flags.row_width,
                     "; must be a multiple of 2 * cp_size = ", multiple));
  }
  return absl::OkStatus();
}

absl::Status FillTokenIds(const PackFlags& flags, bool byte_tokens,
                          PackOptions& pack) {
  if (flags.no_end_token && flags.end_token_id) {
    return InvalidArgument(
        kBadOption,
        "end_token_id and no_end_token are given; must be at most one");
  }
  pack.end_token_id = flags.end_token_id;
  if (byte_tokens && !flags.end_token_id && !flags.no_end_token) {
    pack.end_token_id = kByteEndTokenId;
  }
  pack.padding_token_id =
      flags.padding_token_id.value_or(byte_tokens ? kBytePaddingTokenId : 0);
  return absl::OkStatus();
}

}  // namespace

void AddPackFlags(CLI::App& command, PackFlags& flags) {
  command
      .add_option("inputs", flags.inputs,
                  "Files, folders, or Megatron datasets (their name without "
                  ".bin and .idx)")
      ->required()
      ->type_name("PATH");
  command
      .add_option("--format", flags.format,
                  "text (a file is a document), jsonl ([5, 6] or {\"input_ids\""
                  ": [5, 6], \"labels\": ...} or {\"text\": ...} a line), npy "
                  "(a row is a document; a stream ends them at "
                  "--end_token_id), megatron; auto: by the file's ending")
      ->capture_default_str();
  command
      .add_option("--tokenizer", flags.tokenizer,
                  "A tokenizer.json for texts; without it each byte is a "
                  "token, 256 ends a document and 257 is padding")
      ->type_name("FILE");
  command
      .add_option("--python", flags.python,
                  "The Python that runs the tokenizer (package tokenizers); "
                  "default: .venv-python, which tools/setup --python makes")
      ->type_name("FILE");
  command.add_option("--row_width", flags.row_width, "Tokens of a row (S)")
      ->capture_default_str();
  command.add_option("--rows", flags.rows, "Rows of a batch (B)")
      ->capture_default_str();
  command
      .add_option("--cp_size", flags.cp_size,
                  "Ranks of the group: slots are multiples of 2 * cp_size")
      ->capture_default_str();
  command
      .add_option("--strategy", flags.strategy,
                  "first_fit, best_fit_decreasing, or balanced: as the second, "
                  "and rows of like work share a batch")
      ->capture_default_str();
  command
      .add_option("--long_documents", flags.long_documents,
                  "What happens to documents that do not fit a row: refuse, "
                  "drop or cut")
      ->capture_default_str();
  command
      .add_option("--row_tail", flags.row_tail,
                  "The rest of a row: extend (its last slot), empty_slot (one "
                  "more slot), auto_fill (left to --auto_fill of shard)")
      ->capture_default_str();
  command
      .add_option("--last_batch", flags.last_batch,
                  "Rows missing at the end of an epoch: fill (with padding) "
                  "or drop (the batch)")
      ->capture_default_str();
  command
      .add_option("--lookahead_tokens", flags.lookahead_tokens,
                  "Tokens that are read ahead to choose from; bounds memory")
      ->capture_default_str();
  command.add_option("--end_token_id", flags.end_token_id,
                     "Goes behind each document that does not end with it");
  command.add_option("--padding_token_id", flags.padding_token_id,
                     "Fills input_ids where there is no token");
  command.add_flag("--no_end_token", flags.no_end_token,
                   "Byte-level tokens: add no end token");
  command.add_flag("--no_position_ids", flags.no_position_ids,
                   "Leave position_ids out");
  command.add_flag("--shuffle", flags.shuffle,
                   "Another order of documents in each epoch");
  command.add_option("--seed", flags.seed, "Of the shuffled order")
      ->capture_default_str();
  command
      .add_option("--epochs", flags.epochs,
                  "Times to go through the documents; 0: without end")
      ->capture_default_str();
  command
      .add_option("--parity", flags.parity,
                  "native, or pack as a release of NeMo AutoModel does: "
                  "automodel_0_4, automodel_0_7")
      ->capture_default_str();
}

absl::StatusOr<std::unique_ptr<BatchSource>> OpenBatchSource(
    const PackFlags& flags) {
  BatchSourceOptions options{.cp_size = flags.cp_size,
                             .shuffle = flags.shuffle,
                             .seed = flags.seed,
                             .epochs = flags.epochs};
  CF_ASSIGN_OR_RETURN(options.parity, ParseParity(flags.parity));
  const bool native = options.parity == Parity::kNative;
  CF_RETURN_IF_ERROR(CheckSizes(flags, native));
  PackOptions& pack = options.pack;
  pack.row_width = flags.row_width;
  pack.rows = flags.rows;
  pack.slot_multiple = native && flags.cp_size > 1 ? 2 * flags.cp_size : 1;
  pack.lookahead_tokens = flags.lookahead_tokens;
  pack.position_ids = !flags.no_position_ids;
  CF_RETURN_IF_ERROR(FillChoices(flags, pack));
  CF_RETURN_IF_ERROR(ValidatePackOptions(pack));

  DocumentInputs inputs{.paths = flags.inputs,
                        .end_token_id = flags.end_token_id};
  CF_ASSIGN_OR_RETURN(inputs.format, ParseDocumentFormat(flags.format));
  if (!flags.tokenizer.empty()) {
    CF_ASSIGN_OR_RETURN(
        inputs.tokenizer,
        ProcessTokenizer::Start(flags.tokenizer, flags.python.empty()
                                                     ? FindPython()
                                                     : flags.python));
  }
  CF_RETURN_IF_ERROR(FillTokenIds(flags, HasByteTokens(inputs), pack));
  CF_ASSIGN_OR_RETURN(auto store, OpenDocuments(inputs));
  return BatchSource::Create(std::move(store), options);
}

}  // namespace cpfeed
