#include "client/documents/text_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

// As much text goes to the tokenizer at once: enough to keep its threads busy.
constexpr int64_t kTokenizedTogether = int64_t{1} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<TextStore>> TextStore::Open(
    std::vector<std::string> paths, std::shared_ptr<Tokenizer> tokenizer) {
  std::vector<File> files;
  for (std::string& path : paths) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
    }
    if (!S_ISREG(info.st_mode)) {
      return InvalidArgument(kBadOption,
                             absl::StrCat(path, " is no regular file"));
    }
    if (tokenizer != nullptr && info.st_size > kMaxTokenizedBytes) {
      return InvalidArgument(
          kBadOption,
          absl::StrCat(path, " has ", info.st_size, " bytes; must be at most ",
                       kMaxTokenizedBytes, " to be tokenized"));
    }
    files.push_back({std::move(path), info.st_size});
  }
  return std::unique_ptr<TextStore>(
      new TextStore(std::move(files), std::move(tokenizer)));
}

absl::StatusOr<bool> TextStore::Has(int64_t index) {
  return index < static_cast<int64_t>(files_.size());
}

absl::StatusOr<int64_t> TextStore::Count() {
  return static_cast<int64_t>(files_.size());
}

absl::StatusOr<std::string> TextStore::ReadBytes(int64_t index, int64_t begin,
                                                 int64_t end) const {
  const File& file = files_[index];
  const int fd = open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", file.path));
  }
  const auto close_fd = absl::MakeCleanup([fd] { close(fd); });
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot stat ", file.path));
  }
  if (info.st_size != file.size) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, kInputChanged,
        absl::StrCat(file.path, " has ", info.st_size, " bytes; must have ",
                     file.size, " as when it was opened first"));
  }
  std::string bytes(end - begin, '\0');
  int64_t done = 0;
  while (done < end - begin) {
    const ssize_t size =
        pread(fd, bytes.data() + done, bytes.size() - done, begin + done);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      return absl::ErrnoToStatus(size < 0 ? errno : EIO,
                                 absl::StrCat("cannot read ", file.path));
    }
    done += size;
  }
  return bytes;
}

void TextStore::WillRead(absl::Span<const int64_t> indices) {
  upcoming_.assign(indices.begin(), indices.end());
}

absl::Status TextStore::Tokenize(int64_t index) {
  std::vector<int64_t> indices = {index};
  int64_t bytes = files_[index].size;
  for (const int64_t next : upcoming_) {
    if (next == index) continue;
    bytes += files_[next].size;
    if (bytes > kTokenizedTogether) break;
    indices.push_back(next);
  }
  std::vector<std::string> texts;
  for (const int64_t i : indices) {
    CF_ASSIGN_OR_RETURN(std::string text, ReadBytes(i, 0, files_[i].size));
    texts.push_back(std::move(text));
  }
  CF_ASSIGN_OR_RETURN(auto encoded, tokenizer_->Encode(texts));
  CF_CHECK(encoded.size() == indices.size());
  tokens_.clear();
  for (size_t i = 0; i < indices.size(); ++i) {
    tokens_[indices[i]] = std::move(encoded[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<const std::vector<int64_t>*> TextStore::Tokens(int64_t index) {
  if (tokens_.find(index) == tokens_.end()) {
    CF_RETURN_IF_ERROR(Tokenize(index));
  }
  return &tokens_[index];
}

absl::StatusOr<int64_t> TextStore::Length(int64_t index) {
  if (tokenizer_ == nullptr) return files_[index].size;
  CF_ASSIGN_OR_RETURN(const auto* tokens, Tokens(index));
  return static_cast<int64_t>(tokens->size());
}

absl::StatusOr<Document> TextStore::Read(int64_t index, int64_t begin,
                                         int64_t end) {
  Document document;
  if (tokenizer_ != nullptr) {
    CF_ASSIGN_OR_RETURN(const auto* tokens, Tokens(index));
    document.input_ids.assign(tokens->begin() + begin, tokens->begin() + end);
    if (end < static_cast<int64_t>(tokens->size())) {
      document.next_token = (*tokens)[end];
    }
    return document;
  }
  const bool whole = end == files_[index].size;
  CF_ASSIGN_OR_RETURN(const std::string bytes,
                      ReadBytes(index, begin, whole ? end : end + 1));
  CF_ASSIGN_OR_RETURN(auto encoded, ByteTokenizer().Encode({bytes}));
  document.input_ids = std::move(encoded.front());
  if (!whole) {
    document.next_token = document.input_ids.back();
    document.input_ids.pop_back();
  }
  return document;
}

std::string TextStore::Name(int64_t index) const { return files_[index].path; }

uint64_t TextStore::Fingerprint() const {
  DigestBuilder digest;
  for (const File& file : files_) {
    const std::string name =
        std::filesystem::path(file.path).filename().string();
    digest.Update(name.data(), static_cast<int64_t>(name.size()));
    digest.UpdateInt64({file.size});
  }
  if (tokenizer_ != nullptr) {
    digest.UpdateInt64({static_cast<int64_t>(tokenizer_->Fingerprint())});
  }
  return digest.Finish();
}

}  // namespace cpfeed
