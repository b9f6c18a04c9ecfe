#include "core/comm/staged_communicator.h"

#include <utility>
#include <vector>

#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

// A part in the host's memory, and where it belongs.
struct Arrival {
  std::vector<std::byte> staged;
  absl::Span<std::byte> to;
};

class PendingStaged final : public PendingExchange {
 public:
  PendingStaged(const DeviceMemory& memory,
                std::vector<std::vector<std::byte>> sent,
                std::vector<Arrival> arrivals,
                std::unique_ptr<PendingExchange> pending)
      : memory_(memory),
        sent_(std::move(sent)),
        arrivals_(std::move(arrivals)),
        pending_(std::move(pending)) {}

  absl::Status Wait() override {
    CF_RETURN_IF_ERROR(pending_->Wait());
    for (const Arrival& arrival : arrivals_) {
      CF_RETURN_IF_ERROR(memory_.copy(arrival.to.data(), arrival.staged.data(),
                                      arrival.to.size()));
    }
    return absl::OkStatus();
  }

 private:
  const DeviceMemory& memory_;
  const std::vector<std::vector<std::byte>> sent_;
  const std::vector<Arrival> arrivals_;
  const std::unique_ptr<PendingExchange> pending_;  // Ends before the bytes.
};

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(std::unique_ptr<Communicator> group, DeviceMemory memory)
      : Communicator(group->rank(), group->size(), group->options()),
        group_(std::move(group)),
        memory_(std::move(memory)) {}

  void Abort(absl::string_view reason) override { group_->Abort(reason); }

 protected:
  absl::Status CopyOwn(absl::Span<const std::byte> from,
                       absl::Span<std::byte> to) override {
    if (!memory_.is_device(from.data()) && !memory_.is_device(to.data())) {
      return Communicator::CopyOwn(from, to);
    }
    return memory_.copy(to.data(), from.data(), from.size());
  }

  absl::StatusOr<std::unique_ptr<PendingExchange>> Start(
      int64_t /*number*/, absl::Span<const SendPart> sends,
      absl::Span<const ReceivePart> receives) override {
    std::vector<std::vector<std::byte>> sent;
    std::vector<SendPart> host_sends(sends.begin(), sends.end());
    for (SendPart& part : host_sends) {
      if (!memory_.is_device(part.bytes.data())) continue;
      std::vector<std::byte>& staged = sent.emplace_back(part.bytes.size());
      CF_RETURN_IF_ERROR(
          memory_.copy(staged.data(), part.bytes.data(), part.bytes.size()));
      part.bytes = staged;
    }
    std::vector<Arrival> arrivals;
    std::vector<ReceivePart> host_receives(receives.begin(), receives.end());
    for (ReceivePart& part : host_receives) {
      if (!memory_.is_device(part.bytes.data())) continue;
      Arrival& arrival = arrivals.emplace_back();
      arrival.staged.resize(part.bytes.size());
      arrival.to = part.bytes;
      part.bytes = absl::MakeSpan(arrival.staged);
    }
    CF_ASSIGN_OR_RETURN(std::unique_ptr<PendingExchange> pending,
                        group_->StartExchange(host_sends, host_receives));
    return std::make_unique<PendingStaged>(
        memory_, std::move(sent), std::move(arrivals), std::move(pending));
  }

  // That of `group_`, which refuses by itself.
  absl::Status Failure() const override { return absl::OkStatus(); }

 private:
  const std::unique_ptr<Communicator> group_;
  const DeviceMemory memory_;
};

}  // namespace

std::unique_ptr<Communicator> StageOnHost(std::unique_ptr<Communicator> group,
                                          DeviceMemory memory) {
  return std::make_unique<StagedCommunicator>(std::move(group),
                                              std::move(memory));
}

}  // namespace cpfeed
