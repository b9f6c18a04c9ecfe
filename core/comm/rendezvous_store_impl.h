// The c10d store behind a RendezvousStore. Includes LibTorch, unlike
// rendezvous_store.h.

#ifndef CPFEED_CORE_COMM_RENDEZVOUS_STORE_IMPL_H_
#define CPFEED_CORE_COMM_RENDEZVOUS_STORE_IMPL_H_

#include <chrono>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace cpfeed {

struct RendezvousStoreImpl {
  c10::intrusive_ptr<c10d::TCPStore> store;
  std::chrono::milliseconds timeout;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_COMM_RENDEZVOUS_STORE_IMPL_H_
