// A file in memory, without reading it all.

#ifndef CPFEED_CLIENT_DOCUMENTS_MAPPED_FILE_H_
#define CPFEED_CLIENT_DOCUMENTS_MAPPED_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cpfeed {

// A file that is mapped read-only for as long as this lives. Immutable; the
// file must not shrink meanwhile.
class MappedFile {
 public:
  // Errors:
  //   NOT_FOUND, PERMISSION_DENIED, ...  What the operating system says.
  //   INVALID_ARGUMENT                   `path` is no regular file.
  static absl::StatusOr<std::unique_ptr<const MappedFile>> Open(
      const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return static_cast<int64_t>(contents_.size()); }
  absl::string_view contents() const { return contents_; }

  // Digest of the name without its folder and of the size.
  uint64_t Fingerprint() const;

 private:
  MappedFile(std::string path, absl::string_view contents)
      : path_(std::move(path)), contents_(contents) {}

  std::string path_;
  absl::string_view contents_;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_MAPPED_FILE_H_
