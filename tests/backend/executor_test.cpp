// The CPU executor against the reference, phase by phase, and against itself: a row's bits must not depend on
// the width of the step, on its place, on the other sequences, or on whether others want output.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "backend/cpu/cpu_backend.h"
#include "kv/host_pages.h"
#include "reference/sensitivity.h"
#include "support/compare.h"
#include "support/memory_tensor.h"
#include "support/sanitized.h"
#include "support/simd_targets.h"
#include "synth/synthetic.h"

namespace slip::backend::cpu {
namespace {

struct Subject {
  std::string shape;
  int bits;
  ActivationMode mode;
};

std::string name_of(const Subject& subject) {
  std::string name = subject.shape + "_" + std::to_string(subject.bits) + "_planes" +
                     std::to_string(static_cast<int>(subject.mode));
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const char* shape : {"tiny-e2b", "tiny-dense", "tiny-moe", "tiny-unified"}) {
    all.push_back({shape, 16, ActivationMode::kFloat});
    for (const int bits : {4, 8}) {
      for (const auto mode : {ActivationMode::kFloat, ActivationMode::kInt8, ActivationMode::kInt16}) {
        all.push_back({shape, bits, mode});
      }
    }
  }
  return all;
}

std::unique_ptr<checkpoint::Checkpoint> make_checkpoint(const Subject& subject) {
  synth::SynthOptions options;
  options.shape = subject.shape;
  options.bits = subject.bits;
  return synth::synthesize(options);
}

/// Sequences on one backend, fed with their own token streams.
class Harness {
 public:
  Harness(const Subject& subject, kv::Storage storage, int threads = 2)
      : checkpoint_(make_checkpoint(subject)) {
    CpuOptions options;
    options.threads = threads;
    options.max_rows = 96;
    options.activations = subject.mode;
    options.kv_storage = storage;
    backend_ = load_observable(checkpoint_->config, checkpoint_->weights, options);
  }

  const model::Config& config() const { return checkpoint_->config; }
  const checkpoint::Checkpoint& checkpoint() const { return *checkpoint_; }
  ObservableBackend& backend() { return *backend_; }

  struct Sequence {
    std::unique_ptr<kv::Cache> cache;
    uint64_t seed;
    std::vector<std::vector<float>> logits;  // by position; empty where no output was asked for
  };

  Sequence start(uint64_t seed, int64_t capacity = 512) {
    Sequence sequence{backend_->new_cache(), seed, {}};
    sequence.cache->reserve(capacity);
    return sequence;
  }
  int token(uint64_t seed, int position) const {
    return static_cast<int>(keyed_bits(seed, static_cast<uint64_t>(position)) %
                            static_cast<uint64_t>(config().vocab));
  }

  struct Part {
    Sequence* sequence;
    int rows;
    bool outputs = true;  // false: only the last row
    bool commit = true;
  };
  /// One step over several sequences.
  void step(const std::vector<Part>& parts) {
    std::vector<Row> rows;
    std::vector<kv::Cache*> caches;
    for (const Part& part : parts) {
      for (int i = 0; i < part.rows; ++i) {
        Row row;
        row.position = part.sequence->cache->length() + i;
        row.token = token(part.sequence->seed, row.position);
        row.sequence = static_cast<int>(caches.size());
        row.output = part.outputs || i == part.rows - 1;
        rows.push_back(row);
      }
      part.sequence->cache->stage(part.rows);
      caches.push_back(part.sequence->cache.get());
    }
    const Output out = backend_->run({rows, caches});
    int next = 0;
    for (const Row& row : rows) {
      Sequence& sequence = *parts[static_cast<size_t>(row.sequence)].sequence;
      sequence.logits.resize(std::max(sequence.logits.size(), static_cast<size_t>(row.position) + 1));
      if (!row.output) continue;
      const float* from = out.logits + static_cast<size_t>(next++) * static_cast<size_t>(config().vocab);
      sequence.logits[static_cast<size_t>(row.position)].assign(from, from + config().vocab);
    }
    EXPECT_EQ(next, out.rows);
    for (const Part& part : parts) part.sequence->cache->commit(part.commit ? part.rows : 0);
  }
  void feed(Sequence& sequence, int total, int width) {
    while (sequence.cache->length() < total)
      step({{&sequence, std::min(width, total - sequence.cache->length())}});
  }

  /// One token of no stream.
  void step_token(Sequence& sequence, int token) {
    const std::vector<Row> rows{{.token = token, .position = sequence.cache->length()}};
    kv::Cache* caches[] = {sequence.cache.get()};
    sequence.cache->stage(1);
    backend_->run({rows, caches});
    sequence.cache->commit(1);
  }

  /// Every byte of K and V that a row at `length` could read.
  std::vector<std::byte> visible_kv(const Sequence& sequence) const {
    std::vector<std::byte> bytes;
    const kv::Layout& layout = sequence.cache->layout();
    const kv::HostPages pages(*sequence.cache);
    for (int l = 0; l < config().layer_count(); ++l) {
      const auto& at = layout.layers()[static_cast<size_t>(l)];
      if (!at.owned) continue;
      const int length = sequence.cache->length();
      for (int position = at.sliding ? std::max(0, length - config().window) : 0; position < length;
           ++position) {
        for (int part = 0; part < at.parts; ++part) {
          for (int head = 0; head < at.kv_heads; ++head) {
            const std::byte* slot = pages.slot(l, part, head, position);
            bytes.insert(bytes.end(), slot,
                         slot + static_cast<size_t>(at.head_dim) * kv::bytes_of(layout.storage()));
          }
        }
      }
    }
    return bytes;
  }

 private:
  std::unique_ptr<checkpoint::Checkpoint> checkpoint_;
  std::unique_ptr<ObservableBackend> backend_;
};

using test::expect_same_bits;

class Executor : public testing::TestWithParam<Subject> {};
INSTANTIATE_TEST_SUITE_P(Models, Executor, testing::ValuesIn(subjects()),
                         [](const auto& test) { return name_of(test.param); });

TEST_P(Executor, gives_a_row_the_same_bits_at_every_width_and_inside_a_prompt_chunk) {
  Harness harness(GetParam(), kv::Storage::kBf16);
  constexpr int kTokens = 61;  // crosses the window of every tiny shape
  auto alone = harness.start(5);
  harness.feed(alone, kTokens, 1);
  const auto kv = harness.visible_kv(alone);
  for (int width = 2; width <= 17; width += test::kSanitized ? 5 : 1) {
    auto together = harness.start(5);
    harness.feed(together, kTokens, width);
    expect_same_bits(together.logits, alone.logits, "width " + std::to_string(width));
    EXPECT_EQ(harness.visible_kv(together), kv) << "KV at width " << width;
  }
  auto whole = harness.start(5);
  harness.step({{&whole, kTokens}});
  expect_same_bits(whole.logits, alone.logits, "one chunk");
  EXPECT_EQ(harness.visible_kv(whole), kv) << "KV of one chunk";
}

TEST_P(Executor, gives_a_row_the_same_bits_whatever_shares_the_batch) {
  Harness harness(GetParam(), kv::Storage::kBf16);
  auto alone = harness.start(5);
  harness.feed(alone, 50, 1);

  // Ragged company: a prompt chunk without outputs, a verify window that is rejected, a single decode row.
  auto subject = harness.start(5), chunk = harness.start(6), verify = harness.start(7),
       decode = harness.start(8);
  harness.feed(decode, 30, 30);
  harness.step({{&chunk, 40, false}, {&subject, 9}, {&decode, 1}});
  harness.step({{&subject, 1}, {&verify, 5, true, false}, {&chunk, 13, false}});
  harness.step({{&verify, 3}, {&decode, 1}, {&subject, 24, false}, {&chunk, 1}});
  harness.step({{&decode, 2, true, false}, {&subject, 16}});
  ASSERT_EQ(subject.cache->length(), 50);
  expect_same_bits(subject.logits, alone.logits, "ragged batch");
  EXPECT_EQ(harness.visible_kv(subject), harness.visible_kv(alone));
}

TEST_P(Executor, forgets_a_rejected_window_completely) {
  Harness harness(GetParam(), kv::Storage::kBf16);
  auto plain = harness.start(5), drafted = harness.start(5);
  harness.feed(plain, 64, 1);
  while (drafted.cache->length() < 64) {
    const uint64_t truth = drafted.seed;
    drafted.seed = 99;  // a window of wrong tokens
    harness.step({{&drafted, 7, true, false}});
    drafted.seed = truth;
    harness.step({{&drafted, 1}});
  }
  drafted.logits.resize(64);
  expect_same_bits(drafted.logits, plain.logits, "after rejected windows");
  EXPECT_EQ(harness.visible_kv(drafted), harness.visible_kv(plain));
}

// So pages may pass from one tenant to another as they are.
TEST_P(Executor, reads_nothing_of_a_page_that_its_sequence_has_not_written) {
  Harness clean(GetParam(), kv::Storage::kBf16), poisoned(GetParam(), kv::Storage::kBf16);
  poisoned.backend().pages().poison_new_pages(true);
  auto a = clean.start(5, 0), b = poisoned.start(5, 0);
  for (const int width : {1, 5, 33, 2, 96, 96, 7, 96, 1}) {
    clean.step({{&a, width}});
    poisoned.step({{&b, width}});
    if (width == 7) poisoned.step({{&b, 3, true, false}});  // a rejected window
  }
  b.logits.resize(a.logits.size());
  expect_same_bits(b.logits, a.logits, "poisoned pages");
}

TEST_P(Executor, computes_the_same_bits_with_any_number_of_threads) {
  Harness one(GetParam(), kv::Storage::kBf16, 1), three(GetParam(), kv::Storage::kBf16, 3);
  auto a = one.start(5), b = three.start(5);
  for (const int width : {1, 5, 33, 1}) {
    one.step({{&a, width}});
    three.step({{&b, width}});
  }
  expect_same_bits(a.logits, b.logits, "threads");
}

// As many of some text's tokens as are clear about their experts; of several texts the one with the most.
std::vector<int> clear_text(const Harness& harness, const model::Program& program,
                            const reference::Probe& probe) {
  constexpr int kTokens = 45;
  std::vector<int> most;
  for (uint64_t seed = 5; seed < 15 && most.size() < 30; ++seed) {
    std::vector<int> text;
    for (int position = 0; position < kTokens; ++position) text.push_back(harness.token(seed, position));
    text.resize(reference::clear_tokens(program, text, probe));
    if (text.size() > most.size()) most = text;
  }
  return most;
}

TEST_P(Executor, agrees_with_the_reference_after_every_phase) {
  const Subject& subject = GetParam();
  // Eight bits are too coarse to follow through layers that choose experts and sharpen attention; the product
  // itself is bounded in matmul_test.
  if (subject.mode == ActivationMode::kInt8) return;
  Harness harness(subject, kv::Storage::kF32, 1);
  const model::Program program = model::build_program(harness.config(), harness.checkpoint().weights);
  const auto configure = [&](reference::Forward& forward) {
    if (subject.mode != ActivationMode::kInt16) return;
    forward.rounding = reference::ActivationRounding::kBits16;
    forward.head_rounding = reference::ActivationRounding::kBits8;
  };
  const reference::Probe probe{.noise = reference::float_noise(harness.config()), .configure = configure};
  const std::vector<int> text = clear_text(harness, program, probe);
  ASSERT_GE(text.size(), 10u);

  using Fields = std::vector<std::vector<float>>;  // [phase][tokens * ...]
  Fields want(program.phases.size()), got(program.phases.size());
  size_t next = 0;
  reference::Forward forward(program);
  configure(forward);
  forward.observe = [&](const model::Phase& phase, const std::vector<float>& field) {
    std::vector<float>& all = want[static_cast<size_t>(&phase - program.phases.data())];
    all.insert(all.end(), field.begin(), field.end());
  };
  harness.backend().observe = [&](const model::Phase&, const float* data, int64_t rows, int64_t cols,
                                  int64_t) {
    ASSERT_EQ(rows, 1);
    while (next < want.size() && program.phases[next].output == model::Field::kNone) ++next;
    ASSERT_LT(next, got.size());
    got[next].insert(got[next].end(), data, data + cols);
    ++next;
  };
  reference::Sequence sequence;
  auto mine = harness.start(5);
  for (const int token : text) {
    forward.step(sequence, token);
    next = 0;
    harness.step_token(mine, token);
  }
  const std::vector<double> allowed = reference::allowed_phase_errors(program, text, probe);
  for (size_t i = 0; i < want.size(); ++i) {
    if (program.phases[i].output == model::Field::kNone) continue;
    EXPECT_LT(test::relative_error(got[i], want[i]), allowed[i])
        << "phase " << model::name_of(program.phases[i].kind) << " of layer " << program.phases[i].layer;
  }
}

TEST(ExecutorTargets, every_instruction_set_agrees_with_the_reference_and_with_itself_at_every_width) {
  for (const char* shape : {"tiny-e2b", "tiny-moe"}) {
    const Subject subject{shape, 4, ActivationMode::kInt16};
    const auto checkpoint = make_checkpoint(subject);
    const model::Program program = model::build_program(checkpoint->config, checkpoint->weights);
    reference::Forward forward(program);
    reference::Sequence sequence;
    std::vector<std::vector<float>> want;
    test::for_each_simd_target([&] {
      Harness harness(subject, kv::Storage::kF32);
      auto alone = harness.start(5), together = harness.start(5);
      harness.feed(alone, 30, 1);
      for (int i = static_cast<int>(want.size()); i < 30; ++i)
        want.push_back(forward.step(sequence, harness.token(5, i)).logits);
      EXPECT_LT(test::peak_error(alone.logits.back(), want.back()), 3e-2);
      harness.feed(together, 30, 7);
      expect_same_bits(together.logits, alone.logits, shape);
    });
  }
}

TEST(ExecutorInput, an_embedding_in_a_rows_place_agrees_with_the_reference) {
  const Subject subject{"tiny-e2b", 16, ActivationMode::kFloat};
  Harness harness(subject, kv::Storage::kF32);
  const model::Program program = model::build_program(harness.config(), harness.checkpoint().weights);
  std::vector<float> embedding(static_cast<size_t>(harness.config().hidden));
  for (size_t i = 0; i < embedding.size(); ++i) embedding[i] = test::noise(9, i);
  reference::Forward forward(program);
  reference::Sequence sequence;
  forward.step(sequence, 3);
  const auto want = forward.step_embedding(sequence, embedding);

  auto cache = harness.backend().new_cache();
  cache->reserve(2);
  cache->stage(2);
  std::vector<Row> rows(2);
  rows[0].token = 3;
  rows[1].position = 1;
  const HostSoftRows soft(embedding, harness.config().hidden);
  rows[1].soft = &soft;
  kv::Cache* caches[] = {cache.get()};
  const Output out = harness.backend().run({rows, caches});
  const std::vector<float> got(out.logits + harness.config().vocab, out.logits + 2 * harness.config().vocab);
  EXPECT_LT(test::peak_error(got, want.logits), 2e-4);
}

TEST(ExecutorLength, many_pages_of_keys_agree_with_the_reference_and_with_every_width) {
  for (const char* shape : {"tiny-e2b", "tiny-dense"}) {
    Harness harness({shape, 16, ActivationMode::kFloat}, kv::Storage::kF32);
    harness.backend().pages().poison_new_pages(true);
    constexpr int kTokens = 3 * kv::kPagePositions + 10;
    auto chunked = harness.start(5, kTokens + 16), ragged = harness.start(5, kTokens + 16);
    harness.feed(chunked, kTokens, 96);
    for (int width = 1; ragged.cache->length() < kTokens; width = width % 17 + 1) {
      harness.step({{&ragged, std::min(width, kTokens - ragged.cache->length())}});
    }
    expect_same_bits(ragged.logits, chunked.logits, shape);

    const model::Program program = model::build_program(harness.config(), harness.checkpoint().weights);
    reference::Forward forward(program);
    reference::Sequence sequence;
    reference::Result last;
    for (int i = 0; i < kTokens; ++i) last = forward.step(sequence, harness.token(5, i));
    EXPECT_LT(test::peak_error(chunked.logits.back(), last.logits), 1e-3) << shape;
  }
}

}  // namespace
}  // namespace slip::backend::cpu
