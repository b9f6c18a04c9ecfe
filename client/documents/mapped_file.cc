#include "client/documents/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
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

namespace cpfeed {

absl::StatusOr<std::unique_ptr<const MappedFile>> MappedFile::Open(
    const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  const auto close_fd = absl::MakeCleanup([fd] { close(fd); });
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot stat ", path));
  }
  if (!S_ISREG(info.st_mode)) {
    return InvalidArgument(kBadOption,
                           absl::StrCat(path, " is no regular file"));
  }
  absl::string_view contents;
  if (info.st_size > 0) {
    void* address = mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", path));
    }
    contents = absl::string_view(static_cast<const char*>(address),
                                 static_cast<size_t>(info.st_size));
  }
  return std::unique_ptr<const MappedFile>(new MappedFile(path, contents));
}

MappedFile::~MappedFile() {
  if (!contents_.empty()) {
    munmap(const_cast<char*>(contents_.data()), contents_.size());
  }
}

uint64_t MappedFile::Fingerprint() const {
  const std::string name = std::filesystem::path(path_).filename().string();
  DigestBuilder digest;
  digest.Update(name.data(), static_cast<int64_t>(name.size()));
  digest.UpdateInt64({size()});
  return digest.Finish();
}

}  // namespace cpfeed
