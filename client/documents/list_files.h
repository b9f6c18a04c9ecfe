// Files of a folder, in an order that does not depend on the file system.

#ifndef CPFEED_CLIENT_DOCUMENTS_LIST_FILES_H_
#define CPFEED_CLIENT_DOCUMENTS_LIST_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cpfeed {

// The regular files below `folder`, at any depth, by ascending path (byte by
// byte). Names that begin with a dot and links to folders are left out; links
// to files are taken. With a `suffix` only names that end with it.
//
// Errors: what the operating system says on reading a folder.
absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& folder,
                                                   absl::string_view suffix);

// Whether a file looks like text: its first 8 KiB hold no byte 0.
//
// Errors: what the operating system says on reading it.
absl::StatusOr<bool> LooksLikeText(const std::string& path);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_LIST_FILES_H_
