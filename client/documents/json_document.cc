#include "client/documents/json_document.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/documents/document_store.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

using Json = nlohmann::json;

absl::Status Malformed(absl::string_view message) {
  return InvalidArgument(kInputMalformed, message);
}

// Takes the fields that we know out of the events of the parser, without a tree
// of objects: a line may hold millions of tokens.
class FieldReader : public nlohmann::json_sax<Json> {
 public:
  absl::Status status;
  std::map<std::string, std::vector<int64_t>> lists;
  std::optional<std::string> text;

  bool null() override { return Scalar("null"); }
  bool boolean(bool) override { return Scalar("a boolean"); }
  bool number_integer(int64_t value) override { return Integer(value); }
  bool number_unsigned(uint64_t value) override {
    if (value > std::numeric_limits<int64_t>::max()) {
      return Scalar("an integer of 2^63 or more");
    }
    return Integer(static_cast<int64_t>(value));
  }
  bool number_float(double, const std::string&) override {
    return Scalar("a number with a fraction or exponent");
  }
  bool string(std::string& value) override {
    if (depth_ == 1 && key_ == "text") {
      text = std::move(value);
      return true;
    }
    return Scalar("a string");
  }
  bool binary(Json::binary_t&) override { return Scalar("binary"); }

  bool start_object(size_t) override {
    if (depth_ > 0 && InList()) return Fail("an object");
    if (depth_ == 1 && KnownList()) return Fail("an object; must be a list");
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool key(std::string& value) override {
    if (depth_ != 1) return true;
    key_ = value;
    if (KnownList() && lists.count(key_) > 0) {
      status = Malformed(absl::StrCat("\"", key_, "\" is there twice"));
      return false;
    }
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ == 0) key_ = "tokens";  // A bare list.
    if (InList()) return Fail("a list");
    if (list_ == nullptr && (depth_ == 0 || (depth_ == 1 && KnownList()))) {
      list_ = &lists[key_];
      list_depth_ = depth_ + 1;
    }
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    if (depth_ < list_depth_) list_ = nullptr;
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    status = Malformed(absl::StrCat("this is no JSON at character ", position));
    return false;
  }

 private:
  bool InList() const { return list_ != nullptr; }
  bool KnownList() const {
    return key_ == "input_ids" || key_ == "tokens" || key_ == "labels" ||
           key_ == "loss_mask" || key_ == "attention_mask";
  }

  bool Integer(int64_t value) {
    if (!InList()) return Scalar("a number");
    if (value < 0 && key_ != "labels") {
      return Fail(absl::StrCat(value, "; must be at least 0"));
    }
    list_->push_back(value);
    return true;
  }

  // A value that is legal only where nothing is read.
  bool Scalar(absl::string_view what) {
    if (InList()) return Fail(absl::StrCat(what, "; must be an integer"));
    if (depth_ == 0) {
      status = Malformed(
          absl::StrCat("line is ", what, "; must be a list or an object"));
      return false;
    }
    if (depth_ == 1 && KnownList() && what != "null") {
      return Fail(absl::StrCat(what, "; must be a list"));
    }
    if (depth_ == 1 && key_ == "text") return Fail("no string; must be one");
    return true;
  }

  bool Fail(absl::string_view what) {
    const std::string place =
        InList() ? absl::StrCat(key_, "[", list_->size(), "]") : key_;
    status = Malformed(absl::StrCat(place, " is ", what));
    return false;
  }

  int depth_ = 0;
  std::string key_;                       // Of the outermost object.
  std::vector<int64_t>* list_ = nullptr;  // The list that is read.
  int list_depth_ = 0;
};

// Moves the list out, where there is one of as many entries as tokens.
absl::StatusOr<std::optional<std::vector<int64_t>>> TakeList(
    FieldReader& reader, const std::string& name, size_t num_tokens) {
  const auto found = reader.lists.find(name);
  if (found == reader.lists.end()) {
    return std::optional<std::vector<int64_t>>();
  }
  if (found->second.size() != num_tokens) {
    return Malformed(absl::StrCat(name, " has ", found->second.size(),
                                  " entries; must have one for each of ",
                                  num_tokens, " tokens"));
  }
  return std::optional<std::vector<int64_t>>(std::move(found->second));
}

absl::StatusOr<Document> TakeDocument(FieldReader& reader,
                                      const std::string& ids_name) {
  Document document;
  document.input_ids = std::move(reader.lists[ids_name]);
  const size_t size = document.input_ids.size();
  CF_ASSIGN_OR_RETURN(document.labels, TakeList(reader, "labels", size));
  CF_ASSIGN_OR_RETURN(document.loss_mask, TakeList(reader, "loss_mask", size));
  CF_ASSIGN_OR_RETURN(const auto mask,
                      TakeList(reader, "attention_mask", size));
  if (mask) {
    const auto zero = std::find(mask->begin(), mask->end(), 0);
    if (zero != mask->end()) {
      return Malformed(absl::StrCat("attention_mask[", zero - mask->begin(),
                                    "] is 0; documents must have no padding"));
    }
  }
  return document;
}

}  // namespace

absl::StatusOr<JsonDocument> ParseJsonDocument(absl::string_view line) {
  FieldReader reader;
  const bool parsed = Json::sax_parse(line.begin(), line.end(), &reader);
  if (!parsed) {
    CF_CHECK(!reader.status.ok());
    return reader.status;
  }
  const bool has_ids = reader.lists.count("input_ids") > 0;
  const bool has_tokens = reader.lists.count("tokens") > 0;
  if (has_ids && has_tokens) {
    return Malformed("line has \"input_ids\" and \"tokens\"; must have one");
  }
  JsonDocument document;
  if (has_ids || has_tokens) {
    CF_ASSIGN_OR_RETURN(document.document,
                        TakeDocument(reader, has_ids ? "input_ids" : "tokens"));
  } else if (reader.text) {
    document.text = std::move(reader.text);
  } else {
    return Malformed("line has no \"input_ids\", \"tokens\" or \"text\"");
  }
  return document;
}

}  // namespace cpfeed
