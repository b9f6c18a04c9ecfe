// Log lines that programs can read: event=NAME key=value ...

#ifndef CPFEED_SERVER_EVENT_LOG_H_
#define CPFEED_SERVER_EVENT_LOG_H_

#include <grpcpp/server_context.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cpfeed {

// Builds one line:
//
//   EventLog("stream_opened").Add("session", name).Add("cp_rank", 3).Info();
//
//   event=stream_opened session=train cp_rank=3
//
// Values that are no plain words are quoted and escaped, and cut at 200 bytes;
// empty ones are left out. Neither payload nor tokens belong into one.
class EventLog {
 public:
  explicit EventLog(absl::string_view event);

  EventLog& Add(absl::string_view key, absl::string_view value);
  EventLog& Add(absl::string_view key, int64_t value) {
    return Add(key, absl::string_view(absl::StrCat(value)));
  }

  // Code and reason, without the message: it may quote what a client sent.
  EventLog& Add(const absl::Status& status);

  // The call's W3C trace context (header "traceparent"), where it has a valid
  // one: trace_id and span_id.
  EventLog& AddTrace(const grpc::ServerContext& context);

  void Info() const;
  void Warning() const;

  const std::string& line() const { return line_; }

 private:
  std::string line_;
};

// Whether `header` is a W3C traceparent of version 00:
// 00-{32 hex}-{16 hex}-{2 hex}, in lower case and ids not all 0.
bool IsTraceparent(absl::string_view header);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_EVENT_LOG_H_
