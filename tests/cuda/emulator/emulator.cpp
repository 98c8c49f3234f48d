#include "cuda/emulator/emulator.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "cuda/emulator/copies.h"
#include "cuda/emulator/operands.h"

#if !defined(__x86_64__)
#error "the emulator switches stacks in x86-64 assembly"
#endif

// Saves the callee-saved registers on the running stack, stores its pointer to *from and continues on `to`.
extern "C" void slip_switch_stack(void** from, void* to);
asm(R"(
.text
.globl slip_switch_stack
slip_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

namespace slip::emulator {
namespace {

// Not a power of two: the tops of all stacks would compete for the same lines of the caches.
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kStackKilobytes = 512;  // its frames are several times as large
#else
constexpr size_t kStackKilobytes = 64;
#endif
constexpr size_t kStackBytes = (kStackKilobytes << 10) + 17 * 64;

enum class State { kReady, kAtWarp, kAtBlock, kAtGrid, kDone };
enum class Meeting { kNone, kSync, kShuffle, kMma, kLoad, kLoadTransposed };

struct Block;

struct Thread : Operands {
  void* stack = nullptr;
  State state = State::kDone;
  int index = 0;  // in its block
  Block* block = nullptr;
  AsyncCopies copies;
  // What the lane brings to a meeting of its warp and takes from it.
  int value = 0, lane = 0;  // beside operands
};

struct Warp {
  Meeting meeting = Meeting::kNone;
  int arrived = 0;
};

/// Some threads at a barrier of their own.
struct Gathering {
  std::vector<Thread*> waiting;
  int gone_on = 0;  // that arrived and do not wait
};

struct Block {
  int index = 0;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<std::byte> shared;
  Gathering gatherings[16];
  BulkCopies bulk;
  int at_block = 0, done = 0;
};

struct Machine {
  std::byte* stacks = nullptr;
  size_t stack_count = 0;
  std::vector<Block> blocks;
  void* scheduler = nullptr;
  Thread* running = nullptr;
  int block_threads = 0, grid = 0;
  const std::function<void()>* body = nullptr;
};

Machine machine;

[[noreturn]] void broken(const char* what) {
  std::fprintf(stderr, "emulated GPU: %s (block %d, thread %d)\n", what,
               machine.running != nullptr ? machine.running->block->index : -1,
               machine.running != nullptr ? machine.running->index : -1);
  std::abort();
}

/// On to the next lane of the warp that can go on, or else to the scheduler.
void leave(State state) {
  Thread* self = machine.running;
  self->state = state;
  Thread* lanes = &self->block->threads[static_cast<size_t>(self->index / kLanes * kLanes)];
  for (int i = 1; i < kLanes; ++i) {
    Thread& next = lanes[(self->index + i) % kLanes];
    if (next.state != State::kReady) continue;
    machine.running = &next;
    place.thread = next.index;
    return slip_switch_stack(&self->stack, next.stack);
  }
  slip_switch_stack(&self->stack, machine.scheduler);
}

void thread_main() {
  (*machine.body)();
  if (!machine.running->copies.empty()) broken("a thread ended with copies under way");
  ++machine.running->block->done;
  leave(State::kDone);
  std::abort();
}

/// The block's `place`-th of those that run together.
void prepare(Block& block, int place_of_block, int index) {
  Thread& thread = block.threads[static_cast<size_t>(index)];
  thread.index = index;
  thread.block = &block;
  thread.state = State::kReady;
  thread.copies = {};
  std::byte* top =
      machine.stacks + static_cast<size_t>(place_of_block * machine.block_threads + index + 1) * kStackBytes;
  auto** stack = reinterpret_cast<void**>(top) - 1;  // aligned as after a call
  *stack = nullptr;
  *--stack = reinterpret_cast<void*>(&thread_main);
  for (int i = 0; i < 6; ++i) *--stack = nullptr;
  thread.stack = stack;
}

Lanes operands_of(Thread* lanes) {
  Lanes operands;
  for (int i = 0; i < kLanes; ++i) operands.all[i] = &lanes[i];
  return operands;
}

void meet(Meeting meeting) {
  Thread* self = machine.running;
  Block& block = *self->block;
  Warp& warp = block.warps[static_cast<size_t>(self->index / kLanes)];
  if (warp.arrived == 0) warp.meeting = meeting;
  if (warp.meeting != meeting) broken("lanes of a warp meet at different places");
  if (++warp.arrived < kLanes) return leave(State::kAtWarp);
  Thread* lanes = &block.threads[static_cast<size_t>(self->index / kLanes * kLanes)];
  if (meeting == Meeting::kMma) multiply(operands_of(lanes));
  if (meeting == Meeting::kLoad) load_matrices(operands_of(lanes));
  if (meeting == Meeting::kLoadTransposed) load_transposed(operands_of(lanes));
  if (meeting == Meeting::kShuffle) {
    for (int i = 0; i < kLanes; ++i) lanes[i].out[0] = static_cast<uint32_t>(lanes[lanes[i].lane].value);
  }
  warp.arrived = 0;
  for (int i = 0; i < kLanes; ++i) lanes[i].state = State::kReady;
}

/// Lets the threads of a block go on as far as they can; true if one did.
bool advance(Block& block) {
  std::byte* start = block.shared.data();
  place = {.thread = 0,
           .block = block.index,
           .blocks = machine.grid,
           .threads = machine.block_threads,
           .shared = start + (128 - reinterpret_cast<uintptr_t>(start) % 128) % 128};
  const int count = machine.block_threads;
  bool moved = false;
  for (int warp = 0; warp < count / kLanes; ++warp) {
    for (bool again = true; again;) {
      again = false;
      for (int lane = 0; lane < kLanes; ++lane) {
        Thread& thread = block.threads[static_cast<size_t>(warp * kLanes + lane)];
        if (thread.state != State::kReady) continue;
        machine.running = &thread;
        place.thread = thread.index;
        slip_switch_stack(&machine.scheduler, thread.stack);
        again = moved = true;
      }
    }
  }
  if (block.at_block > 0 && block.at_block + block.done == count) {
    if (block.done > 0) broken("threads wait at a barrier that others have left out");
    block.at_block = 0;
    for (auto& thread : block.threads) thread.state = State::kReady;
    moved = true;
  }
  return moved;
}

/// Whoever waits for other blocks looks again.
bool wake_waiting() {
  bool woken = false;
  for (Block& block : machine.blocks) {
    for (Thread& thread : block.threads) {
      if (thread.state != State::kAtGrid) continue;
      thread.state = State::kReady;
      woken = true;
    }
  }
  return woken;
}

void run_blocks() {
  int rounds = 0;
  for (bool working = true; working;) {
    bool moved = false;
    working = false;
    for (Block& block : machine.blocks) {
      while (advance(block)) moved = true;
      working |= block.done < machine.block_threads;
    }
    if (!working) break;
    if (!wake_waiting() && !moved) broken("no thread can go on");
    if (++rounds > 10000000) broken("blocks wait for one another");
  }
}

}  // namespace

void sync_threads() {
  ++machine.running->block->at_block;
  leave(State::kAtBlock);
}
namespace {

/// True where the last of `threads` has come.
bool gather(int number, int threads, bool waits) {
  if (number < 1 || number > 15 || threads % kLanes != 0) broken("no such barrier");
  Gathering& here = machine.running->block->gatherings[number];
  if (waits) here.waiting.push_back(machine.running);
  if (!waits) ++here.gone_on;
  if (static_cast<int>(here.waiting.size()) + here.gone_on < threads) return false;
  for (Thread* thread : here.waiting) thread->state = State::kReady;
  here = {};
  return true;
}

}  // namespace

void sync_some(int number, int threads) {
  if (!gather(number, threads, true)) leave(State::kAtWarp);
}
void arrive_some(int number, int threads) {
  gather(number, threads, false);
}
void grid_await() {
  leave(State::kAtGrid);
}
void gather_warp(bool waits) {
  constexpr int kNumber = 15;  // like a barrier that the kernels do not use otherwise
  if (waits) {
    sync_some(kNumber, machine.block_threads);
  } else {
    arrive_some(kNumber, machine.block_threads);
  }
}
void sync_warp() {
  meet(Meeting::kSync);
}
int shuffle_from(int value, int lane) {
  Thread* self = machine.running;
  self->value = value;
  self->lane = lane & (kLanes - 1);
  meet(Meeting::kShuffle);
  return static_cast<int>(self->out[0]);
}
void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bool halves) {
  Thread* self = machine.running;
  self->halves = halves;
  std::memcpy(self->in, a, sizeof(a));
  self->in[4] = b0;
  self->in[5] = b1;
  std::memcpy(self->sums, c, sizeof(c));
  meet(Meeting::kMma);
  std::memcpy(c, self->sums, sizeof(c));
}
void load_rows(uint32_t (&out)[4], const void* row, Meeting meeting) {
  Thread* self = machine.running;
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) broken("a matrix row is not aligned");
  self->row = row;
  meet(meeting);
  std::memcpy(out, self->out, sizeof(out));
}
void load_transposed(uint32_t (&out)[4], const void* row) {
  load_rows(out, row, Meeting::kLoadTransposed);
}
void load_matrices(uint32_t (&out)[4], const void* row) {
  load_rows(out, row, Meeting::kLoad);
}

void require_shared(const std::byte* at, size_t bytes) {
  const auto& shared = machine.running->block->shared;
  if (at < shared.data() || at + bytes > shared.data() + shared.size())
    broken("an asynchronous copy leaves shared memory");
}

void copy_async(void* shared, const void* global) {
  if (!is_aligned(shared) || !is_aligned(global)) broken("an asynchronous copy is not aligned");
  require_shared(static_cast<std::byte*>(shared), 16);
  machine.running->copies.add(shared, global);
}
void copy_async_or_zero(void* shared, const void* global, bool real) {
  alignas(16) static const std::byte zeros[16] = {};
  copy_async(shared, real ? global : zeros);
}
void copy_commit() {
  machine.running->copies.commit();
}
void copy_wait(int left) {
  machine.running->copies.wait(left);
}

void arrival_init(uint64_t* arrival) {
  *arrival = 0;  // copies that have arrived
}
void copy_bulk(std::byte* shared, const std::byte* global, int bytes, uint64_t* arrival) {
  if (bytes != 0) return copy_rows(shared, bytes, global, bytes, 1, arrival);
  sync_warp();
}
void copy_rows(std::byte* shared, int stride, const std::byte* global, int bytes, int rows,
               uint64_t* arrival) {
  sync_warp();
  if (lane_index() != 0) return;
  if (bytes < 0 || rows < 0 || bytes % 16 != 0 || stride % 16 != 0 || !is_aligned(shared) ||
      !is_aligned(global))
    broken("a bulk copy is not aligned");
  const BulkCopy copy{shared, global, static_cast<size_t>(bytes), static_cast<size_t>(rows),
                      static_cast<size_t>(stride)};
  if (rows > 0) require_shared(shared, copy.stride * (copy.rows - 1) + copy.bytes);
  if (!machine.running->block->bulk.start(arrival, copy)) broken("a bulk copy overtakes another");
}
void wait_arrival(uint64_t* arrival, uint32_t parity) {
  if ((*arrival & 1) != parity) return;  // it has arrived
  if (!machine.running->block->bulk.finish(arrival)) broken("waiting for a copy that nobody started");
  ++*arrival;
}

namespace {

/// Blocks first .. first + count - 1 of the grid, together.
void run_wave(int first, int count, size_t shared_bytes) {
  const int threads = machine.block_threads;
  machine.blocks.resize(static_cast<size_t>(count));
  for (int b = 0; b < count; ++b) {
    Block& block = machine.blocks[static_cast<size_t>(b)];
    block.index = first + b;
    block.at_block = block.done = 0;
    block.bulk = {};
    for (Gathering& gathering : block.gatherings) gathering = {};
    block.threads.resize(static_cast<size_t>(threads));
    block.warps.assign(static_cast<size_t>(threads / kLanes), {});
    block.shared.assign(shared_bytes + 128, std::byte{0xff});
    for (int i = 0; i < threads; ++i) prepare(block, b, i);
  }
  run_blocks();
  for (const Block& block : machine.blocks) {
    if (!block.bulk.empty()) broken("a block ended with bulk copies under way");
    for (const Gathering& gathering : block.gatherings) {
      if (gathering.gone_on > 0) broken("a block ended with arrivals that nobody awaited");
    }
  }
}

}  // namespace

void run_grid(int blocks, int threads, size_t shared_bytes, bool together,
              const std::function<void()>& thread) {
  if (threads % kLanes != 0 || threads <= 0) broken("a block must be whole warps");
  const int at_once = together ? blocks : 1;
  const size_t stacks = static_cast<size_t>(threads) * static_cast<size_t>(at_once);
  if (stacks > machine.stack_count) {
    if (machine.stacks != nullptr) munmap(machine.stacks, machine.stack_count * kStackBytes);
    machine.stack_count = stacks;
    machine.stacks = static_cast<std::byte*>(mmap(nullptr, stacks * kStackBytes, PROT_READ | PROT_WRITE,
                                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (machine.stacks == MAP_FAILED) broken("there is no memory for stacks");
  }
  machine.block_threads = threads;
  machine.grid = blocks;
  machine.body = &thread;
  for (int first = 0; first < blocks; first += at_once) run_wave(first, at_once, shared_bytes);
  machine.running = nullptr;
}

}  // namespace slip::emulator
