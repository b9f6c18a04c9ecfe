// Where the processes of a group find each other: a c10d TCPStore, as torchrun
// uses it.

#ifndef CPFEED_CORE_COMM_RENDEZVOUS_STORE_H_
#define CPFEED_CORE_COMM_RENDEZVOUS_STORE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace cpfeed {

struct RendezvousStoreImpl;

// A store of small values that all processes of a job see. Thread-safe.
class RendezvousStore {
 public:
  struct Options {
    std::string address = "127.0.0.1";  // Of the process that hosts the store.
    int port = 0;                       // 0: any free one; only for the host.
    bool host = false;                  // Serve it in this process.
    absl::Duration timeout = absl::Minutes(5);  // To connect, and of each wait.
  };

  // Hosts the store, or connects to it and waits until it is there. The store
  // ends with the object of its host.
  //
  // Errors:
  //   UNAVAILABLE        The port is taken, or nobody answers there within the
  //                      timeout; the message has address and port.
  static absl::StatusOr<std::shared_ptr<RendezvousStore>> Open(
      const Options& options);

  ~RendezvousStore();

  // The port that it is served at.
  int port() const;

  // Makes `key` known to all.
  //
  // Errors:
  //   UNAVAILABLE  The host is gone.
  absl::Status Set(absl::string_view key, absl::string_view value);

  // The value of `key`, once somebody has set it.
  //
  // Errors:
  //   DEADLINE_EXCEEDED  Nobody did within the timeout.
  //   UNAVAILABLE        The host is gone.
  absl::StatusOr<std::string> Get(absl::string_view key);

  // Waits until all `keys` are set.
  //
  // Errors:
  //   DEADLINE_EXCEEDED  They are not within `timeout`.
  //   UNAVAILABLE        The host is gone.
  absl::Status Wait(absl::Span<const std::string> keys, absl::Duration timeout);

  // Whether `key` is set at this moment.
  //
  // Errors:
  //   UNAVAILABLE  The host is gone.
  absl::StatusOr<bool> Has(absl::string_view key);

  // The c10d store inside; for rendezvous of c10d process groups.
  RendezvousStoreImpl& impl() { return *impl_; }

 private:
  explicit RendezvousStore(std::unique_ptr<RendezvousStoreImpl> impl);

  const std::unique_ptr<RendezvousStoreImpl> impl_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_COMM_RENDEZVOUS_STORE_H_
