#include "client/cli/json_input.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

// Some functions of the JSON library recurse into values.
constexpr int kMaxDepth = 64;

// Whether lists and objects of `text` are nested deeper than kMaxDepth.
bool IsTooDeep(absl::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMaxDepth) return true;
  }
  return false;
}

std::string ReadAll(std::istream& stream) {
  std::ostringstream text;
  text << stream.rdbuf();
  return std::move(text).str();
}

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view text) {
  if (IsTooDeep(text)) {
    return InvalidArgument(
        kBatchMalformed, absl::StrCat("input is nested deeper than ", kMaxDepth,
                                      " levels; must not be"));
  }
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::exception& error) {
    return InvalidArgument(kBatchMalformed,
                           absl::StrCat("input is no JSON: ", error.what()));
  }
}

absl::StatusOr<Json> ReadJson(const std::string& path,
                              std::istream& standard_input) {
  if (path == "-") return ParseJson(ReadAll(standard_input));
  std::ifstream file(path, std::ios::binary);
  if (!file.good()) {
    return MakeError(
        absl::StatusCode::kNotFound, "FILE_NOT_FOUND",
        absl::StrCat(path, " cannot be read: ", std::strerror(errno)));
  }
  absl::StatusOr<Json> json = ParseJson(ReadAll(file));
  if (!json.ok()) return Annotate(json.status(), path);
  return json;
}

}  // namespace cpfeed
