// Flags of every sub-command that calls a server.

#ifndef CPFEED_CLIENT_CLI_SECURITY_FLAGS_H_
#define CPFEED_CLIENT_CLI_SECURITY_FLAGS_H_

#include <CLI/CLI.hpp>

#include "client/channel_security.h"

namespace cpfeed {

// Adds --tls_ca, --tls_cert, --tls_key and --token_file; `security` outlives
// the command. Environment variables CPFEED_TLS_CA and so on stand for them.
inline void AddSecurityFlags(CLI::App& command, ChannelSecurity& security) {
  command
      .add_option("--tls_ca", security.tls_ca,
                  "Use TLS: PEM file with who signs the server's certificate")
      ->envname("CPFEED_TLS_CA");
  command
      .add_option("--tls_cert", security.tls_cert,
                  "PEM file with this client's certificate chain")
      ->envname("CPFEED_TLS_CERT");
  command.add_option("--tls_key", security.tls_key, "PEM file with its key")
      ->envname("CPFEED_TLS_KEY");
  command
      .add_option("--token_file", security.token_file,
                  "File with a bearer token; needs TLS")
      ->envname("CPFEED_TOKEN_FILE");
}

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_SECURITY_FLAGS_H_
