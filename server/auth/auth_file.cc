#include "server/auth/auth_file.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxNameBytes = 63;
constexpr size_t kMaxSanBytes = 1024;
constexpr int64_t kMaxQuota = int64_t{1} << 53;  // What JSON numbers hold.

absl::Status Wrong(absl::string_view what) {
  return InvalidArgument(kBadOption, what);
}

absl::Status CheckMembers(const Json& object, absl::string_view what,
                          const std::set<std::string>& known) {
  if (!object.is_object()) return Wrong(absl::StrCat(what, " is no object"));
  for (const auto& [key, value] : object.items()) {
    if (known.contains(key)) continue;
    return Wrong(absl::StrCat(what, " has a member that is none of its own: ",
                              absl::CHexEscape(key.substr(0, 40))));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Text(const Json& object, const char* member,
                                 size_t most) {
  const auto found = object.find(member);
  if (found == object.end()) return "";
  if (!found->is_string()) {
    return Wrong(absl::StrCat(member, " is no string"));
  }
  const auto& text = found->get_ref<const std::string&>();
  if (text.empty() || text.size() > most) {
    return Wrong(absl::StrCat(member, " has ", text.size(),
                              " bytes; must have 1 to ", most));
  }
  return text;
}

// Letters, digits, '-', '_' and '.': it goes into logs.
absl::Status CheckWord(absl::string_view member, absl::string_view word) {
  for (const char letter : word) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(letter)) ||
        letter == '-' || letter == '_' || letter == '.') {
      continue;
    }
    return Wrong(absl::StrCat(
        member,
        " has other characters than letters, digits, '-', '_' and '.'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenHash(const Json& object) {
  CF_ASSIGN_OR_RETURN(const std::string hex, Text(object, "token_sha256", 64));
  if (hex.empty()) return "";
  bool digits = hex.size() == 64;
  for (const char letter : hex) {
    digits &= absl::ascii_isxdigit(static_cast<unsigned char>(letter));
  }
  if (!digits) return Wrong("token_sha256 must be 64 hexadecimal digits");
  return absl::HexStringToBytes(hex);
}

absl::StatusOr<Roles> ReadRoles(const Json& object) {
  const auto found = object.find("roles");
  if (found == object.end() || !found->is_array() || found->empty()) {
    return Wrong("roles must be an array of at least one role");
  }
  Roles roles = 0;
  for (const Json& role : *found) {
    if (role == "loader") {
      roles |= kLoader;
    } else if (role == "worker") {
      roles |= kWorker;
    } else if (role == "controller") {
      roles |= kController;
    } else if (role == "operator") {
      roles |= kOperator;
    } else {
      return Wrong("roles must be of loader, worker, controller and operator");
    }
  }
  return roles;
}

absl::StatusOr<Quota> ReadQuota(const Json& object) {
  Quota quota;
  const auto found = object.find("quota");
  if (found == object.end()) return quota;
  CF_RETURN_IF_ERROR(
      CheckMembers(*found, "quota", {"sessions", "bytes", "streams", "plans"}));
  const auto read = [&](const char* member, int64_t& value) -> absl::Status {
    const auto number = found->find(member);
    if (number == found->end()) return absl::OkStatus();
    if (!number->is_number_unsigned() ||
        number->get<uint64_t>() > static_cast<uint64_t>(kMaxQuota) ||
        number->get<uint64_t>() == 0) {
      return Wrong(absl::StrCat("quota: ", member,
                                " must be a whole number from 1 to 2^53"));
    }
    value = number->get<int64_t>();
    return absl::OkStatus();
  };
  CF_RETURN_IF_ERROR(read("sessions", quota.sessions));
  CF_RETURN_IF_ERROR(read("bytes", quota.bytes));
  CF_RETURN_IF_ERROR(read("streams", quota.streams));
  CF_RETURN_IF_ERROR(read("plans", quota.plans));
  return quota;
}

absl::StatusOr<Principal> ReadPrincipal(const Json& object) {
  CF_RETURN_IF_ERROR(CheckMembers(
      object, "it",
      {"name", "san", "token_sha256", "roles", "session_prefix", "quota"}));
  Principal principal;
  CF_ASSIGN_OR_RETURN(principal.name, Text(object, "name", kMaxNameBytes));
  if (principal.name.empty()) return Wrong("name is missing");
  CF_RETURN_IF_ERROR(CheckWord("name", principal.name));
  CF_ASSIGN_OR_RETURN(principal.san, Text(object, "san", kMaxSanBytes));
  CF_ASSIGN_OR_RETURN(principal.token_sha256, TokenHash(object));
  if (principal.san.empty() == principal.token_sha256.empty()) {
    return Wrong("one of san and token_sha256 must be there, and not both");
  }
  CF_ASSIGN_OR_RETURN(principal.roles, ReadRoles(object));
  CF_ASSIGN_OR_RETURN(principal.session_prefix,
                      Text(object, "session_prefix", kMaxNameBytes));
  CF_RETURN_IF_ERROR(CheckWord("session_prefix", principal.session_prefix));
  CF_ASSIGN_OR_RETURN(principal.quota, ReadQuota(object));
  return principal;
}

// Nesting beyond what a file needs: the parser would recurse.
bool IsDeep(absl::string_view text) {
  int depth = 0;
  for (const char letter : text) {
    if (letter == '[' || letter == '{') ++depth;
    if (letter == ']' || letter == '}') --depth;
    if (depth > 64) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<AuthFile> ParseAuthFile(absl::string_view text) {
  if (static_cast<int64_t>(text.size()) > kMaxAuthFileBytes) {
    return Wrong(absl::StrCat("file has ", text.size(),
                              " bytes; must have at most ", kMaxAuthFileBytes));
  }
  if (IsDeep(text)) return Wrong("file is nested too deeply");
  const Json file = Json::parse(text.begin(), text.end(), nullptr, false);
  if (file.is_discarded()) return Wrong("file is no JSON");
  CF_RETURN_IF_ERROR(CheckMembers(file, "file", {"principals"}));
  const auto list = file.find("principals");
  if (list == file.end() || !list->is_array() ||
      list->size() > static_cast<size_t>(kMaxPrincipals)) {
    return Wrong(absl::StrCat("principals must be an array of at most ",
                              kMaxPrincipals));
  }
  AuthFile result;
  std::set<std::string> seen;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string place = absl::StrCat("principal ", i);
    absl::StatusOr<Principal> principal = ReadPrincipal((*list)[i]);
    if (!principal.ok()) return Annotate(principal.status(), place);
    const std::string identity =
        principal->san.empty() ? principal->token_sha256 : principal->san;
    if (!seen.insert(identity).second) {
      return Wrong(
          absl::StrCat(place, ": its san or token is an earlier one's"));
    }
    result.principals.push_back(
        std::make_shared<const Principal>(*std::move(principal)));
  }
  return result;
}

}  // namespace cpfeed
