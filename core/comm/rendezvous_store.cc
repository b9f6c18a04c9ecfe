#include "core/comm/rendezvous_store.h"

#include <c10/util/Exception.h>

#include <cstdint>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/comm/rendezvous_store_impl.h"

namespace cpfeed {
namespace {

absl::Status HostLost(const c10d::TCPStore& store, absl::string_view why) {
  return MakeError(absl::StatusCode::kUnavailable, kPeerLost,
                   absl::StrCat("rendezvous store at ", store.getHost(), ":",
                                store.getPort(), " failed: ", why));
}

// Runs `call` on the store and turns what it throws into a status.
template <class Call>
absl::Status Guarded(const c10d::TCPStore& store, Call call) {
  try {
    call();
    return absl::OkStatus();
  } catch (const c10::Error& error) {
    return HostLost(store, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return HostLost(store, error.what());
  }
}

}  // namespace

RendezvousStore::RendezvousStore(std::unique_ptr<RendezvousStoreImpl> impl)
    : impl_(std::move(impl)) {}

RendezvousStore::~RendezvousStore() = default;

absl::StatusOr<std::shared_ptr<RendezvousStore>> RendezvousStore::Open(
    const Options& options) {
  if (options.port < (options.host ? 0 : 1) || options.port > UINT16_MAX) {
    return InvalidArgument(kBadOption,
                           absl::StrCat("rendezvous port is ", options.port,
                                        "; must be in [1, ", UINT16_MAX, "]"));
  }
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<uint16_t>(options.port);
  store_options.isServer = options.host;
  store_options.waitWorkers = false;
  store_options.timeout = absl::ToChronoMilliseconds(options.timeout);
  const auto failed = [&](absl::string_view why) {
    return MakeError(
        absl::StatusCode::kUnavailable, kPeerLost,
        absl::StrCat(
            "rendezvous store at ", options.address, ":", options.port,
            options.host ? " cannot be hosted: " : " not reached: ", why));
  };
  try {
    auto impl = std::make_unique<RendezvousStoreImpl>(RendezvousStoreImpl{
        .store =
            c10::make_intrusive<c10d::TCPStore>(options.address, store_options),
        .timeout = store_options.timeout});
    return std::shared_ptr<RendezvousStore>(
        new RendezvousStore(std::move(impl)));
  } catch (const c10::Error& error) {
    return failed(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

int RendezvousStore::port() const { return impl_->store->getPort(); }

absl::Status RendezvousStore::Set(absl::string_view key,
                                  absl::string_view value) {
  return Guarded(*impl_->store, [&] {
    impl_->store->set(std::string(key),
                      std::vector<uint8_t>(value.begin(), value.end()));
  });
}

absl::Status RendezvousStore::Wait(absl::Span<const std::string> keys,
                                   absl::Duration timeout) {
  try {
    impl_->store->wait({keys.begin(), keys.end()},
                       absl::ToChronoMilliseconds(timeout));
    return absl::OkStatus();
  } catch (const c10::DistStoreError&) {
    return MakeError(
        absl::StatusCode::kDeadlineExceeded, kPeerLate,
        absl::StrCat("rendezvous keys ", absl::StrJoin(keys, ", "),
                     " not set within ", absl::FormatDuration(timeout)));
  } catch (const c10::Error& error) {
    return HostLost(*impl_->store, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return HostLost(*impl_->store, error.what());
  }
}

absl::StatusOr<std::string> RendezvousStore::Get(absl::string_view key) {
  const std::string name(key);
  CF_RETURN_IF_ERROR(Wait({&name, 1}, absl::FromChrono(impl_->timeout)));
  std::string value;
  CF_RETURN_IF_ERROR(Guarded(*impl_->store, [&] {
    const std::vector<uint8_t> bytes = impl_->store->get(name);
    value.assign(bytes.begin(), bytes.end());
  }));
  return value;
}

absl::StatusOr<bool> RendezvousStore::Has(absl::string_view key) {
  bool has = false;
  CF_RETURN_IF_ERROR(Guarded(
      *impl_->store, [&] { has = impl_->store->check({std::string(key)}); }));
  return has;
}

}  // namespace cpfeed
