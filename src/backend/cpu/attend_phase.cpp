// Attention of a batch: rows are cut into blocks that share a sequence, blocks meet pages of keys, partials
// are folded in order of position. Two ways to deal the work out give the same bits: with many blocks (a
// prompt) a thread takes a block through all its pages; with few (decoding) threads share the pages of a
// block, in waves that fit the partials' memory.
#include <algorithm>
#include <cstring>

#include "backend/cpu/executor.h"
#include "base/check.h"
#include "kv/host_pages.h"

namespace slip::backend::cpu {

using model::LayerKind;

namespace {

// Memory for the partials of one wave: 16 MiB is 500 pages of a small model's decode row.
constexpr size_t kWaveBytes = size_t{16} << 20;

static_assert(kKeySplit == kv::kPagePositions, "a part of the keys is one page of the cache");

int64_t page_of(int position) {
  return position / kKeySplit;
}

}  // namespace

void Executor::plan_attention_memory(Carver& carver) {
  int widest = 0;
  for (const auto& layer : config_.layers) widest = std::max(widest, layer.head_dim);
  const auto partial = static_cast<size_t>(partial_floats(widest));
  for (size_t t = 0; t < thread_scratch_.size(); ++t) {
    thread_scratch_[t] = carver.allocate<float>(attend_scratch_floats(widest));
    thread_partials_[t] = carver.allocate<float>(2 * kMaxPageQueries * partial);
  }
  // By-page work is chosen for fewer than 2 * threads pairs of block and unit (see attend), so this many
  // queries.
  const size_t queries = 2 * thread_scratch_.size() * kMaxPageQueries;
  states_ = carver.allocate<float>(queries * partial);
  wave_floats_ = std::max(kWaveBytes / sizeof(float), queries * partial);
  wave_partials_ = carver.allocate<float>(wave_floats_);
}

const KeySpan& Executor::keys(int layer, int row) const {
  return layer_config(layer).kind == LayerKind::kSliding ? active(row).sliding : active(row).full;
}

int64_t Executor::pages_of(int layer, const RowBlock& block) const {
  return page_of(keys(layer, block.first + block.count - 1).end - 1) -
         page_of(keys(layer, block.first).first) + 1;
}

Executor::AttentionPlan Executor::plan_attention(int layer, int thread) {
  const model::LayerConfig& config = layer_config(layer);
  const int group = config.heads / config.kv_heads;
  const int most = std::max(1, kMaxPageQueries / group);
  std::vector<RowBlock>& blocks = thread_blocks_[static_cast<size_t>(thread)];
  size_t count = 0;
  for (int i = 0; i < row_count_; ++i) {
    if (count > 0) {
      RowBlock& last = blocks[count - 1];
      if (last.count < most && active(last.first).cache == active(i).cache) {
        ++last.count;
        continue;
      }
    }
    blocks[count++] = {i, 1};
  }
  // A short text with one kv head is one page of work for one thread; then the query heads are shared out.
  int64_t work = 0;
  for (size_t i = 0; i < count && work < pool_.size(); ++i)
    work += pages_of(layer, blocks[i]) * config.kv_heads;
  int parts = 1;
  while (work * parts < pool_.size() && group % (2 * parts) == 0) parts *= 2;
  return {{blocks.data(), count}, parts, group / parts, config.kv_heads * parts};
}

void Executor::attend(int layer, int thread) {
  const AttentionPlan plan = plan_attention(layer, thread);
  if (static_cast<int>(plan.blocks.size()) * plan.units >= 2 * pool_.size()) {
    attend_blocks_whole(layer, plan, thread);
  } else {
    attend_blocks_by_page(layer, plan, thread);
  }
}

void Executor::finish_head(int layer, const float* state, int row, int head) const {
  const int hd = layer_config(layer).head_dim;
  finish_partial(state, hd, attended_.row(row) + head * hd);
  if (finishes_heads(layer)) attended_.finish(row, int64_t{head} * hd, int64_t{head + 1} * hd);
}

/// Partials of one block's rows over one page: partials[row in block][head in group][partial].
void Executor::attend_block_page(int layer, const AttentionPlan& plan, const RowBlock& block, int unit,
                                 int64_t page_index, float* partials, float* scratch) const {
  const model::LayerConfig& config = layer_config(layer);
  const auto owner = static_cast<size_t>(config.kv_source);
  const model::LayerConfig& source = network_.kv_config->layers[owner];
  const int hd = config.head_dim, group = plan.group, partial = partial_floats(hd);
  const int kv_head = unit / plan.parts;
  const kv::HostPages pages(*caches_[static_cast<size_t>(active(block.first).cache)]);

  const size_t head_bytes = static_cast<size_t>(kKeySplit * hd) * kv::bytes_of(layout_.storage());
  const std::byte* base = pages.page(config.kv_source, page_index);
  Page page{
      .keys = base + static_cast<size_t>(kv_head) * head_bytes,
      .values = base + static_cast<size_t>(source.k_is_v ? kv_head : source.kv_heads + kv_head) * head_bytes,
      .storage = layout_.storage(),
      .head_dim = hd};
  PageRope rope;
  if (source.k_is_v) {
    rope = rotary(source.kind).page(page_index, network_.kv_weights->layers[owner].k_norm.data());
    page.rope = &rope;
  }

  PageRow rows[kMaxPageQueries];
  int count = 0;
  const int start = static_cast<int>(page_index) * kKeySplit;
  for (int i = 0; i < block.count; ++i) {
    const KeySpan& seen = keys(layer, block.first + i);
    const int first = std::max(seen.first - start, 0);
    const int last = std::min(seen.end - start, kKeySplit);
    if (first >= last) continue;
    rows[count++] = {.queries = query_.row(block.first + i) + unit * group * hd,
                     .first = first,
                     .last = last,
                     .partials = partials + static_cast<size_t>(i * group) * static_cast<size_t>(partial)};
  }
  if (count > 0) attend_page(page, rows, count, group, scratch);
}

void Executor::attend_blocks_whole(int layer, const AttentionPlan& plan, int thread) {
  const int hd = layer_config(layer).head_dim, group = plan.group;
  const auto partial = static_cast<size_t>(partial_floats(hd));
  float* partials = thread_partials_[static_cast<size_t>(thread)];
  float* states = partials + kMaxPageQueries * partial;
  parallel(thread, static_cast<int64_t>(plan.blocks.size()) * plan.units, [&](int64_t task) {
    // Later blocks of a prompt see more keys: deal them out first, so that the end is even.
    const RowBlock& block = plan.blocks[plan.blocks.size() - 1 - static_cast<size_t>(task / plan.units)];
    const int unit = static_cast<int>(task % plan.units);
    const int64_t last_page = page_of(keys(layer, block.first + block.count - 1).end - 1);
    for (int64_t page = page_of(keys(layer, block.first).first); page <= last_page; ++page) {
      attend_block_page(layer, plan, block, unit, page, partials,
                        thread_scratch_[static_cast<size_t>(thread)]);
      for (int i = 0; i < block.count; ++i) {
        const KeySpan& seen = keys(layer, block.first + i);
        const int64_t row_first = page_of(seen.first);
        if (page < row_first || page > page_of(seen.end - 1)) continue;
        for (int h = 0; h < group; ++h) {
          const auto at = static_cast<size_t>(i * group + h) * partial;
          if (page == row_first) {
            std::memcpy(states + at, partials + at, partial * sizeof(float));
          } else {
            merge_partial(partials + at, hd, states + at);
          }
        }
      }
    }
    for (int i = 0; i < block.count; ++i) {
      for (int h = 0; h < group; ++h) {
        finish_head(layer, states + static_cast<size_t>(i * group + h) * partial, block.first + i,
                    unit * group + h);
      }
    }
  });
}

void Executor::attend_blocks_by_page(int layer, const AttentionPlan& plan, int thread) {
  const int hd = layer_config(layer).head_dim, group = plan.group;
  const auto partial = static_cast<size_t>(partial_floats(hd));
  // Queries of a pair (block, unit) lie together: kMaxPageQueries places each.
  const auto pairs = plan.blocks.size() * static_cast<size_t>(plan.units);
  const size_t page_floats = pairs * kMaxPageQueries * partial;
  const auto wave = static_cast<int64_t>(wave_floats_ / page_floats);
  SLIP_CHECK(wave >= 1);
  const auto block_first_page = [&](const RowBlock& block) {
    return page_of(keys(layer, block.first).first);
  };
  const auto block_last_page = [&](const RowBlock& block) {
    return page_of(keys(layer, block.first + block.count - 1).end - 1);
  };
  int64_t most_pages = 0;
  for (const RowBlock& block : plan.blocks) {
    most_pages = std::max(most_pages, pages_of(layer, block));
  }
  for (int64_t done = 0; done < most_pages; done += wave) {
    const int64_t now = std::min(wave, most_pages - done);
    parallel(thread, now * static_cast<int64_t>(pairs), [&](int64_t task) {
      const auto pair = static_cast<size_t>(task % static_cast<int64_t>(pairs));
      const int64_t in_wave = task / static_cast<int64_t>(pairs);
      const RowBlock& block = plan.blocks[pair / static_cast<size_t>(plan.units)];
      const int64_t page = block_first_page(block) + done + in_wave;
      if (page > block_last_page(block)) return;
      float* partials =
          wave_partials_ + static_cast<size_t>(in_wave) * page_floats + pair * kMaxPageQueries * partial;
      attend_block_page(layer, plan, block, static_cast<int>(pair % static_cast<size_t>(plan.units)), page,
                        partials, thread_scratch_[static_cast<size_t>(thread)]);
    });
    parallel(thread, static_cast<int64_t>(pairs) * kMaxPageQueries, [&](int64_t task) {
      const auto pair = static_cast<size_t>(task / kMaxPageQueries);
      const int query = static_cast<int>(task % kMaxPageQueries);
      const RowBlock& block = plan.blocks[pair / static_cast<size_t>(plan.units)];
      const int unit = static_cast<int>(pair % static_cast<size_t>(plan.units));
      if (query >= block.count * group) return;
      const int row = block.first + query / group;
      const KeySpan& seen = keys(layer, row);
      const int64_t row_first = page_of(seen.first), row_last = page_of(seen.end - 1);
      float* state = states_ + static_cast<size_t>(task) * partial;
      for (int64_t in_wave = 0; in_wave < now; ++in_wave) {
        const int64_t page = block_first_page(block) + done + in_wave;
        if (page < row_first || page > row_last) continue;
        const float* from =
            wave_partials_ + static_cast<size_t>(in_wave) * page_floats + static_cast<size_t>(task) * partial;
        if (page == row_first) {
          std::memcpy(state, from, partial * sizeof(float));
        } else {
          merge_partial(from, hd, state);
        }
        if (page == row_last) finish_head(layer, state, row, unit * group + query % group);
      }
    });
  }
}

}  // namespace slip::backend::cpu
