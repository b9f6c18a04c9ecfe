#include "server/metrics/http_listener.h"

#include <civetweb.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cpfeed {
namespace {

void Answer(mg_connection* connection, absl::string_view status,
            absl::string_view content_type, const std::string& body) {
  const std::string head = absl::StrCat(
      "HTTP/1.1 ", status, "\r\nContent-Type: ", content_type,
      "\r\nContent-Length: ", body.size(),
      "\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n");
  mg_write(connection, head.data(), head.size());
  mg_write(connection, body.data(), body.size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(
    const std::string& address, Pages pages) {
  std::unique_ptr<HttpListener> listener(new HttpListener(std::move(pages)));
  // No document_root: no file is ever served.
  const char* options[] = {"listening_ports",
                           address.c_str(),
                           "num_threads",
                           "2",
                           "request_timeout_ms",
                           "5000",
                           "enable_keep_alive",
                           "no",
                           nullptr};
  mg_callbacks callbacks = {};
  // Whatever it has to say about broken connections interests nobody.
  callbacks.log_message = [](const mg_connection*, const char*) { return 1; };
  listener->context_ = mg_start(&callbacks, listener.get(), options);
  if (listener->context_ == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", address,
        "; the port may be taken, or the address not this machine's"));
  }
  mg_set_request_handler(listener->context_, "/**", &HttpListener::Handle,
                         listener.get());
  return listener;
}

HttpListener::~HttpListener() {
  if (context_ != nullptr) mg_stop(context_);
}

int HttpListener::port() const {
  mg_server_port ports[1] = {};
  return mg_get_server_ports(context_, 1, ports) == 1 ? ports[0].port : 0;
}

int HttpListener::Handle(mg_connection* connection, void* listener) {
  const auto& pages = static_cast<HttpListener*>(listener)->pages_;
  const mg_request_info& request = *mg_get_request_info(connection);
  const absl::string_view method = request.request_method;
  const auto page = pages.find(request.local_uri ? request.local_uri : "");
  if (page == pages.end()) {
    Answer(connection, "404 Not Found", "text/plain", "no such page\n");
    return 404;
  }
  if (method != "GET") {
    Answer(connection, "405 Method Not Allowed", "text/plain", "GET only\n");
    return 405;
  }
  Answer(connection, "200 OK", page->second.content_type,
         page->second.render());
  return 200;
}

}  // namespace cpfeed
