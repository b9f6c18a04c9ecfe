#include "client/documents/process_tokenizer.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/documents/mapped_file.h"
#include "client/documents/tokenize_script.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

namespace fs = std::filesystem;

// What the process sends is our own script's, but not to be trusted blindly.
constexpr uint64_t kMaxErrorBytes = 1 << 16;
constexpr uint64_t kMaxIds = uint64_t{1} << 31;

template <class T>
void AppendInteger(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Tokenizer>> ProcessTokenizer::Start(
    const std::string& tokenizer_json, const std::string& python) {
  CF_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(tokenizer_json));
  const uint64_t fingerprint = Digest(file->contents().data(), file->size());
  absl::StatusOr<std::unique_ptr<ChildProcess>> process = ChildProcess::Start(
      {python, "-I", "-c", kTokenizeScript, tokenizer_json});
  if (!process.ok()) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, kBadOption,
        absl::StrCat(process.status().message(),
                     "; run tools/setup --python, or name another Python"));
  }
  std::shared_ptr<ProcessTokenizer> tokenizer(
      new ProcessTokenizer(*std::move(process), fingerprint));
  absl::Status status =
      tokenizer->ReadOutcome(absl::StatusCode::kInvalidArgument);
  uint64_t vocabulary = 0;
  if (status.ok()) {
    status = tokenizer->process_->Read(&vocabulary, sizeof(vocabulary));
  }
  if (!status.ok()) {
    return Annotate(status, absl::StrCat("tokenizer ", tokenizer_json));
  }
  return std::shared_ptr<Tokenizer>(std::move(tokenizer));
}

absl::Status ProcessTokenizer::ReadOutcome(absl::StatusCode code_of_failure) {
  uint8_t outcome = 0;
  CF_RETURN_IF_ERROR(process_->Read(&outcome, 1));
  if (outcome == 0) return absl::OkStatus();
  if (outcome == 2) code_of_failure = absl::StatusCode::kFailedPrecondition;
  uint64_t size = 0;
  CF_RETURN_IF_ERROR(process_->Read(&size, sizeof(size)));
  std::string message(std::min(size, kMaxErrorBytes), '\0');
  CF_RETURN_IF_ERROR(
      process_->Read(message.data(), static_cast<int64_t>(message.size())));
  return MakeError(code_of_failure, kBadOption, message);
}

absl::StatusOr<std::vector<int64_t>> ProcessTokenizer::ReadIds() {
  uint64_t count = 0;
  CF_RETURN_IF_ERROR(process_->Read(&count, sizeof(count)));
  if (count > kMaxIds) {
    return absl::InternalError(absl::StrCat(
        "tokenizer gives ", count, " ids for a text; must be at most 2^31"));
  }
  std::vector<uint32_t> ids(count);
  CF_RETURN_IF_ERROR(
      process_->Read(ids.data(), static_cast<int64_t>(count * sizeof(ids[0]))));
  return std::vector<int64_t>(ids.begin(), ids.end());
}

absl::StatusOr<std::vector<std::vector<int64_t>>> ProcessTokenizer::Encode(
    absl::Span<const std::string> texts) {
  std::string request;
  AppendInteger(static_cast<uint32_t>(texts.size()), request);
  for (const std::string& text : texts) {
    AppendInteger(static_cast<uint64_t>(text.size()), request);
    absl::StrAppend(&request, text);
  }
  CF_RETURN_IF_ERROR(process_->Write(request));
  CF_RETURN_IF_ERROR(ReadOutcome(absl::StatusCode::kInternal));
  std::vector<std::vector<int64_t>> encoded;
  for (size_t i = 0; i < texts.size(); ++i) {
    CF_ASSIGN_OR_RETURN(std::vector<int64_t> ids, ReadIds());
    encoded.push_back(std::move(ids));
  }
  return encoded;
}

std::string FindPython() {
  std::error_code ignored;
  for (fs::path folder :
       {fs::current_path(ignored),
        fs::read_symlink("/proc/self/exe", ignored).parent_path()}) {
    while (!folder.empty()) {
      const fs::path python = folder / ".venv-python/bin/python3";
      if (fs::exists(python, ignored)) return python.string();
      if (folder == folder.root_path()) break;
      folder = folder.parent_path();
    }
  }
  return "python3";
}

}  // namespace cpfeed
