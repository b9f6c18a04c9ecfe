#include "client/documents/list_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace cpfeed {
namespace {

namespace fs = std::filesystem;

absl::Status ListError(const std::string& folder,
                       const std::error_code& error) {
  return absl::ErrnoToStatus(error.value(),
                             absl::StrCat("cannot list ", folder));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& folder,
                                                   absl::string_view suffix) {
  std::vector<std::string> files;
  std::error_code error;
  auto it = fs::recursive_directory_iterator(folder, error);
  if (error) return ListError(folder, error);
  for (; it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (error) return ListError(folder, error);
    const std::string name = it->path().filename().string();
    std::error_code ignored;  // A broken link is no file.
    if (absl::StartsWith(name, ".")) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file(ignored) && absl::EndsWith(name, suffix)) {
      files.push_back(it->path().string());
    }
  }
  if (error) return ListError(folder, error);
  std::sort(files.begin(), files.end());
  return files;
}

absl::StatusOr<bool> LooksLikeText(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  const auto close_fd = absl::MakeCleanup([fd] { close(fd); });
  std::array<char, 8192> head;
  const ssize_t size = read(fd, head.data(), head.size());
  if (size < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  }
  return std::memchr(head.data(), 0, size) == nullptr;
}

}  // namespace cpfeed
