#include "server/event_log.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "core/base/error.h"

namespace cpfeed {
namespace {

constexpr size_t kMostValueBytes = 200;

bool IsPlain(absl::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char letter) {
    return absl::ascii_isgraph(static_cast<unsigned char>(letter)) &&
           letter != '"' && letter != '=' && letter != '\\';
  });
}

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char letter) {
    return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f');
  });
}

bool IsId(absl::string_view text) {
  return IsHex(text) && text.find_first_not_of('0') != absl::string_view::npos;
}

}  // namespace

bool IsTraceparent(absl::string_view header) {
  return header.size() == 55 && header.substr(0, 3) == "00-" &&
         header[35] == '-' && header[52] == '-' && IsId(header.substr(3, 32)) &&
         IsId(header.substr(36, 16)) && IsHex(header.substr(53));
}

EventLog::EventLog(absl::string_view event)
    : line_(absl::StrCat("event=", event)) {}

EventLog& EventLog::Add(absl::string_view key, absl::string_view value) {
  if (value.empty()) return *this;
  value = value.substr(0, kMostValueBytes);
  if (IsPlain(value)) {
    absl::StrAppend(&line_, " ", key, "=", value);
  } else {
    absl::StrAppend(&line_, " ", key, "=\"", absl::CHexEscape(value), "\"");
  }
  return *this;
}

EventLog& EventLog::Add(const absl::Status& status) {
  return Add("code", absl::StatusCodeToString(status.code()))
      .Add("reason", ReasonOf(status));
}

EventLog& EventLog::AddTrace(const grpc::ServerContext& context) {
  const auto found = context.client_metadata().find("traceparent");
  if (found == context.client_metadata().end()) return *this;
  const absl::string_view header(found->second.data(), found->second.size());
  if (!IsTraceparent(header)) return *this;
  return Add("trace_id", header.substr(3, 32))
      .Add("span_id", header.substr(36, 16));
}

void EventLog::Info() const { spdlog::info("{}", line_); }

void EventLog::Warning() const { spdlog::warn("{}", line_); }

}  // namespace cpfeed
