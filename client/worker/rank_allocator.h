// How a rank's process gets its memory.

#ifndef CPFEED_CLIENT_WORKER_RANK_ALLOCATOR_H_
#define CPFEED_CLIENT_WORKER_RANK_ALLOCATOR_H_

namespace cpfeed {

// Makes malloc keep what is freed. Every step of a job allocates the same large
// tensors; by default each is mapped anew, and clearing its pages costs up to a
// fifth of a step of attention over short documents. The process keeps the most
// that it ever used. Call it before other threads are there.
void KeepFreedMemory();

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_RANK_ALLOCATOR_H_
