#include "client/documents/npy_header.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/documents/document_store.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);

absl::Status Malformed(absl::string_view message) {
  return InvalidArgument(kInputMalformed, message);
}

// A Python dict literal of the only form that NumPy writes:
//   {'descr': '<i4', 'fortran_order': False, 'shape': (3, 4), }
class DictReader {
 public:
  explicit DictReader(absl::string_view text) : rest_(text) {}

  absl::Status Read() {
    if (!Eat('{')) return Error("{");
    while (!Eat('}')) {
      CF_ASSIGN_OR_RETURN(const std::string key, String());
      if (!Eat(':')) return Error(":");
      CF_RETURN_IF_ERROR(Value(key));
      if (!Eat(',') && !Peek('}')) return Error(", or }");
    }
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    if (!rest_.empty()) return Error("nothing more");
    if (!descr || !fortran_order || !shape) {
      return Malformed("header lacks descr, fortran_order or shape");
    }
    return absl::OkStatus();
  }

  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;

 private:
  bool Peek(char c) {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    return !rest_.empty() && rest_.front() == c;
  }
  bool Eat(char c) {
    if (!Peek(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  absl::Status Error(absl::string_view expected) const {
    return Malformed(absl::StrCat("header has \"", rest_.substr(0, 10),
                                  "\"; must have ", expected));
  }

  absl::StatusOr<std::string> String() {
    for (const char quote : {'\'', '"'}) {
      if (!Eat(quote)) continue;
      const size_t end = rest_.find(quote);
      if (end == absl::string_view::npos) break;
      std::string value(rest_.substr(0, end));
      rest_.remove_prefix(end + 1);
      return value;
    }
    return Error("a string");
  }

  absl::Status Value(absl::string_view key) {
    if (key == "descr" && !descr) {
      CF_ASSIGN_OR_RETURN(descr, String());
      return absl::OkStatus();
    }
    if (key == "fortran_order" && !fortran_order) return Bool();
    if (key == "shape" && !shape) return Tuple();
    return Malformed(absl::StrCat("header has \"", key,
                                  "\"; must have descr, "
                                  "fortran_order and shape, once each"));
  }

  absl::Status Bool() {
    Peek(' ');
    for (const auto& [word, value] :
         {std::pair<absl::string_view, bool>("True", true), {"False", false}}) {
      if (!absl::StartsWith(rest_, word)) continue;
      rest_.remove_prefix(word.size());
      fortran_order = value;
      return absl::OkStatus();
    }
    return Error("True or False");
  }

  absl::Status Tuple() {
    if (!Eat('(')) return Error("(");
    shape.emplace();
    while (!Eat(')')) {
      size_t digits = 0;
      while (digits < rest_.size() && absl::ascii_isdigit(rest_[digits])) {
        ++digits;
      }
      int64_t size;
      if (!absl::SimpleAtoi(rest_.substr(0, digits), &size)) {
        return Error("a size below 2^63");
      }
      rest_.remove_prefix(digits);
      shape->push_back(size);
      if (!Eat(',') && !Peek(')')) return Error(", or )");
    }
    return absl::OkStatus();
  }

  absl::string_view rest_;
};

absl::StatusOr<IntegerType> ParseDescr(absl::string_view descr) {
  static const auto* types = new std::map<std::string, IntegerType>{
      {"|u1", IntegerType::kUint8},  {"|i1", IntegerType::kInt8},
      {"<u1", IntegerType::kUint8},  {"<i1", IntegerType::kInt8},
      {"<u2", IntegerType::kUint16}, {"<i2", IntegerType::kInt16},
      {"<u4", IntegerType::kUint32}, {"<i4", IntegerType::kInt32},
      {"<u8", IntegerType::kUint64}, {"<i8", IntegerType::kInt64}};
  const auto found = types->find(std::string(descr));
  if (found != types->end()) return found->second;
  return Malformed(absl::StrCat("elements are of type \"", descr,
                                "\"; must be little-endian integers"));
}

// The header's text, and behind it the elements.
absl::StatusOr<absl::string_view> HeaderText(absl::string_view contents) {
  if (!absl::StartsWith(contents, kMagic)) {
    return Malformed("file does not begin as an .npy file");
  }
  const auto byte = [&](size_t i) -> size_t {
    return static_cast<unsigned char>(contents[i]);
  };
  const size_t version = contents.size() < 8 ? 0 : byte(6);
  if (version < 1 || version > 3) {
    return Malformed(absl::StrCat("file is of format version ", version,
                                  "; must be 1, 2 or 3"));
  }
  const size_t begin = version == 1 ? 10 : 12;
  if (contents.size() < begin) return Malformed("file ends inside its header");
  size_t length = 0;
  for (size_t i = begin; i > 8; --i) length = length << 8 | byte(i - 1);
  if (length > contents.size() - begin) {
    return Malformed(absl::StrCat("header has ", length,
                                  " bytes; file has only ",
                                  contents.size() - begin, " more"));
  }
  return contents.substr(begin, length);
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view contents) {
  CF_ASSIGN_OR_RETURN(const absl::string_view text, HeaderText(contents));
  DictReader dict(text);
  CF_RETURN_IF_ERROR(dict.Read());
  NpyHeader header;
  CF_ASSIGN_OR_RETURN(header.type, ParseDescr(*dict.descr));
  header.shape = *dict.shape;
  header.data_offset = text.end() - contents.begin();
  const size_t rank = header.shape.size();
  if (rank != 1 && rank != 2) {
    return Malformed(
        absl::StrCat("array has ", rank, " dimensions; must have 1 or 2"));
  }
  if (rank == 2 && *dict.fortran_order) {
    return Malformed("array is in Fortran order; must be in C order");
  }
  if (rank == 2 && header.shape[0] > 0 && header.shape[1] == 0) {
    return Malformed(absl::StrCat("array of shape (", header.shape[0],
                                  ", 0) has rows without tokens"));
  }
  std::optional<int64_t> bytes = IntegerSize(header.type);
  for (const int64_t size : header.shape) {
    if (bytes) bytes = CheckedMul(*bytes, size);
  }
  const int64_t available =
      static_cast<int64_t>(contents.size()) - header.data_offset;
  if (bytes != available) {
    return Malformed(absl::StrCat("array of shape (",
                                  absl::StrJoin(header.shape, ", "), ") needs ",
                                  bytes ? absl::StrCat(*bytes) : "over 2^63",
                                  " bytes; file has ", available));
  }
  return header;
}

}  // namespace cpfeed
