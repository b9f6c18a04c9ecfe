#include "server/session_export.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>

#include "core/base/error.h"
#include "core/session/session.h"
#include "core/wire/shard_codec.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "server/held_step.h"
#include "server/session_standing.h"
#include "server/step_plans.h"

namespace cpfeed {
namespace {

constexpr int64_t kMostSteps = 1000;

void AddBatches(const std::deque<Session::Producer::Batch>& batches,
                google::protobuf::RepeatedPtrField<v1::ExportedBatch>& protos) {
  for (const Session::Producer::Batch& batch : batches) {
    v1::ExportedBatch& proto = *protos.Add();
    proto.set_sequence(batch.sequence);
    proto.set_digest(batch.digest);
    proto.set_cost_bytes(batch.cost_bytes);
  }
}

void FillProducer(const Session::Producer& producer,
                  v1::ExportedProducer& proto) {
  proto.set_producer(producer.id);
  proto.set_connection(producer.connection);
  proto.set_incarnation(producer.incarnation);
  proto.set_next_sequence(producer.next_sequence);
  proto.set_finished(producer.finished);
  proto.set_credit_bytes(producer.credit_bytes);
  proto.set_pending_grant_bytes(producer.pending_grant_bytes);
  AddBatches(producer.receiving, *proto.mutable_receiving());
  AddBatches(producer.waiting, *proto.mutable_waiting());
  proto.set_known_batches(static_cast<int64_t>(producer.known.size()));
}

void FillConsumer(const Session::Consumer& consumer,
                  v1::ExportedConsumer& proto) {
  proto.set_connection(consumer.connection);
  proto.set_incarnation(consumer.incarnation);
  proto.set_acknowledged_step(consumer.acked_step);
  proto.set_next_step(consumer.next_step);
  proto.set_first_unsent_step(consumer.first_unsent);
  proto.set_credit_bytes(consumer.credit_bytes);
}

void FillBooks(const Session& session, v1::ExportedSession& proto) {
  proto.set_turn(session.producers()[session.turn()].id);
  proto.set_reserved_bytes(session.reserved_bytes());
  proto.set_inconsistency(session.CheckInvariants());
  for (const Session::Producer& producer : session.producers()) {
    FillProducer(producer, *proto.add_producers());
  }
  const int per_rank = session.config().consumers_per_cp_rank;
  for (int i = 0; i < session.config().num_consumers(); ++i) {
    v1::ExportedConsumer& consumer = *proto.add_consumers();
    consumer.set_cp_rank(i / per_rank);
    consumer.set_consumer(i % per_rank);
    FillConsumer(session.consumers()[i], consumer);
  }
}

void FillStep(const HeldStep& held, v1::ExportedStep& proto) {
  proto.set_step(held.step);
  proto.set_producer(held.producer);
  proto.set_sequence(held.sequence);
  proto.set_data_epoch(held.batch.data_epoch);
  int64_t bytes = 0;
  for (const EncodedStep& rank : held.batch.ranks) bytes += rank.payload.size();
  proto.set_payload_bytes(bytes);
  if (held.batch.plans != nullptr) {
    for (const ChunkPlan& chunk : held.batch.plans->chunks()) {
      proto.add_plan_digests(chunk.digest);
    }
  }
  proto.set_tombstone_reason(ReasonOf(held.batch.poison));
}

}  // namespace

v1::ExportedSession ExportSession(const SessionHost& host) {
  v1::ExportedSession proto;
  *proto.mutable_session() = host.ToProto();
  proto.set_newest_event(host.events().newest());
  int64_t begin = 0;
  int64_t end = 0;
  host.Read([&](const Session& session, const SessionStanding&) {
    FillBooks(session, proto);
    begin = session.first_held_step();
    end = std::min(session.next_step(), begin + kMostSteps);
  });
  for (int64_t step = begin; step < end; ++step) {
    const std::shared_ptr<const HeldStep> held = host.FindStep(step);
    if (held != nullptr) FillStep(*held, *proto.add_steps());
  }
  return proto;
}

}  // namespace cpfeed
