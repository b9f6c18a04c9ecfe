// How a client says who it is, and knows that the server is the right one.

#ifndef CPFEED_CLIENT_CHANNEL_SECURITY_H_
#define CPFEED_CLIENT_CHANNEL_SECURITY_H_

#include <string>

namespace cpfeed {

// PEM files, and a file with a bearer token; all empty: no TLS. The files are
// read again when they change.
struct ChannelSecurity {
  std::string tls_ca;    // Who signs the server's certificate; empty with TLS:
                         // the system's authorities.
  std::string tls_cert;  // The client's own chain, with
  std::string tls_key;   // its key.
  std::string token_file;  // Needs tls_ca or tls_cert.

  bool uses_tls() const { return !tls_ca.empty() || !tls_cert.empty(); }
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CHANNEL_SECURITY_H_
