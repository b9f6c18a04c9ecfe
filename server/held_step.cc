#include "server/held_step.h"

#include <utility>

namespace cpfeed {

EncodedStep MessageOf(const HeldStep& held, int cp_rank,
                      const std::vector<std::string>& tensors,
                      bool with_cursor) {
  EncodedStep message = SelectTensors(held.batch.ranks[cp_rank], tensors);
  v1::StepHeader& header = message.header;
  header.set_step(held.step);
  header.set_batch_id(held.batch.batch_id);
  header.set_producer(held.producer);
  header.set_sequence(held.sequence);
  header.set_data_epoch(held.batch.data_epoch);
  if (with_cursor) {
    Buffer payload = Buffer::CopyOf(held.cursor.data(),
                                    static_cast<int64_t>(held.cursor.size()));
    payload.Append(message.payload);
    message.payload = std::move(payload);
    header.set_cursor_bytes(static_cast<int32_t>(held.cursor.size()));
    header.set_payload_bytes(message.payload.size());
  }
  return message;
}

}  // namespace cpfeed
