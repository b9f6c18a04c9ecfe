// A small HTTP server of pages that are read, never written.

#ifndef CPFEED_SERVER_METRICS_HTTP_LISTENER_H_
#define CPFEED_SERVER_METRICS_HTTP_LISTENER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

struct mg_context;
struct mg_connection;

namespace cpfeed {

class HttpListener {
 public:
  struct Page {
    std::string content_type;
    std::function<std::string()> render;  // From any thread.
  };
  // By path, such as "/metrics".
  using Pages = std::map<std::string, Page>;

  // Serves on `address`, "host:port" with a numeric host; port 0 picks a free
  // one. Anything but GET of one of the pages is refused.
  //
  // Errors:
  //   UNAVAILABLE  The address cannot be bound; the message has it.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Start(
      const std::string& address, Pages pages);
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // The bound port.
  int port() const;

 private:
  explicit HttpListener(Pages pages) : pages_(std::move(pages)) {}
  static int Handle(mg_connection* connection, void* listener);

  const Pages pages_;
  mg_context* context_ = nullptr;
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_METRICS_HTTP_LISTENER_H_
