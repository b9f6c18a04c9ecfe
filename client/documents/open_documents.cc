#include "client/documents/open_documents.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/documents/concat_store.h"
#include "client/documents/jsonl_store.h"
#include "client/documents/list_files.h"
#include "client/documents/megatron_store.h"
#include "client/documents/npy_store.h"
#include "client/documents/text_store.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::pair<DocumentFormat, absl::string_view>, 5> kNames = {
    {{DocumentFormat::kAuto, "auto"},
     {DocumentFormat::kText, "text"},
     {DocumentFormat::kJsonl, "jsonl"},
     {DocumentFormat::kNpy, "npy"},
     {DocumentFormat::kMegatron, "megatron"}}};

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// What kAuto stands for at this path.
DocumentFormat FormatOf(const std::string& path, DocumentFormat format) {
  if (format != DocumentFormat::kAuto) return format;
  if (IsFolder(path)) return DocumentFormat::kText;
  if (absl::EndsWith(path, ".jsonl")) return DocumentFormat::kJsonl;
  if (absl::EndsWith(path, ".npy")) return DocumentFormat::kNpy;
  if (absl::EndsWith(path, ".bin") || absl::EndsWith(path, ".idx") ||
      (!Exists(path) && Exists(path + ".idx"))) {
    return DocumentFormat::kMegatron;
  }
  return DocumentFormat::kText;
}

absl::string_view SuffixOf(DocumentFormat format) {
  switch (format) {
    case DocumentFormat::kJsonl:
      return ".jsonl";
    case DocumentFormat::kNpy:
      return ".npy";
    case DocumentFormat::kMegatron:
      return ".idx";
    default:
      return "";
  }
}

// The files of `path` in this format: itself, or what a folder holds.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& path,
                                                 DocumentFormat format) {
  if (!IsFolder(path)) return std::vector<std::string>{path};
  CF_ASSIGN_OR_RETURN(std::vector<std::string> files,
                      ListFiles(path, SuffixOf(format)));
  if (format == DocumentFormat::kText) {
    std::vector<std::string> texts;
    for (std::string& file : files) {
      CF_ASSIGN_OR_RETURN(const bool is_text, LooksLikeText(file));
      if (is_text) texts.push_back(std::move(file));
    }
    files = std::move(texts);
  }
  if (!files.empty()) return files;
  return InvalidArgument(kBadOption,
                         absl::StrCat("folder ", path, " has no ",
                                      DocumentFormatName(format), " file"));
}

absl::StatusOr<std::unique_ptr<DocumentStore>> OpenFile(
    const std::string& path, DocumentFormat format,
    const DocumentInputs& inputs, std::shared_ptr<Tokenizer> line_tokenizer) {
  switch (format) {
    case DocumentFormat::kJsonl:
      return JsonlStore::Open(path, std::move(line_tokenizer));
    case DocumentFormat::kNpy:
      return NpyStore::Open(path, inputs.end_token_id);
    case DocumentFormat::kMegatron: {
      absl::string_view prefix = path;
      if (!absl::ConsumeSuffix(&prefix, ".idx")) {
        absl::ConsumeSuffix(&prefix, ".bin");
      }
      return MegatronStore::Open(std::string(prefix));
    }
    default:
      return TextStore::Open({path}, inputs.tokenizer);
  }
}

}  // namespace

absl::string_view DocumentFormatName(DocumentFormat format) {
  for (const auto& [value, name] : kNames) {
    if (value == format) return name;
  }
  return "unknown";
}

absl::StatusOr<DocumentFormat> ParseDocumentFormat(absl::string_view name) {
  for (const auto& [value, known] : kNames) {
    if (name == known) return value;
  }
  return InvalidArgument(kBadOption,
                         absl::StrCat("format is \"", name,
                                      "\"; must be auto, text, jsonl, npy or "
                                      "megatron"));
}

absl::StatusOr<std::unique_ptr<DocumentStore>> OpenDocuments(
    const DocumentInputs& inputs) {
  if (inputs.paths.empty()) {
    return InvalidArgument(kBadOption,
                           "there is no input; must be at least one");
  }
  std::shared_ptr<Tokenizer> line_tokenizer = inputs.tokenizer;
  if (line_tokenizer == nullptr) {
    line_tokenizer = std::make_shared<ByteTokenizer>();
  }
  std::vector<std::unique_ptr<DocumentStore>> stores;
  for (const std::string& path : inputs.paths) {
    const DocumentFormat format = FormatOf(path, inputs.format);
    CF_ASSIGN_OR_RETURN(std::vector<std::string> files, FilesOf(path, format));
    if (format == DocumentFormat::kText) {
      CF_ASSIGN_OR_RETURN(auto store,
                          TextStore::Open(std::move(files), inputs.tokenizer));
      stores.push_back(std::move(store));
      continue;
    }
    for (const std::string& file : files) {
      CF_ASSIGN_OR_RETURN(auto store,
                          OpenFile(file, format, inputs, line_tokenizer));
      stores.push_back(std::move(store));
    }
  }
  return std::make_unique<ConcatStore>(std::move(stores));
}

bool HasByteTokens(const DocumentInputs& inputs) {
  if (inputs.tokenizer != nullptr) return false;
  for (const std::string& path : inputs.paths) {
    if (FormatOf(path, inputs.format) != DocumentFormat::kText) return false;
  }
  return true;
}

}  // namespace cpfeed
