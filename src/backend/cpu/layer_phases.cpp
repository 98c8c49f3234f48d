// What every layer does between embedding and head, one function per phase.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/elementwise.h"
#include "backend/cpu/executor.h"
#include "kv/host_pages.h"

namespace slip::backend::cpu {

using model::LayerKind;

void Executor::embed_row(int row, int thread, float* out) const {
  const model::Config& config = *network_.embed_config;
  embed_readers_[static_cast<size_t>(thread)]->floats(config.embedding_row(active(row).token), out);
  scale_row(out, config.embed_scale, config.hidden);
}

void Executor::embed(int thread) {
  parallel(thread, row_count_, [&](int64_t i) {
    const int row = static_cast<int>(i);
    float* stream = stream_.row(i);
    if (active(row).soft != nullptr) {
      std::memcpy(stream, active(row).embedding(), static_cast<size_t>(config_.hidden) * sizeof(float));
    } else {
      embed_row(row, thread, stream);
    }
    if (config_.per_layer_dim > 0) stream_.finish(i);
    sliding_rotary_.fill_row(row, active(row).position);
    full_rotary_.fill_row(row, active(row).position);
  });
}

void Executor::per_layer_inputs(int thread) {
  const int p = config_.per_layer_dim;
  const int layers = any_output_ ? config_.layer_count() : program_->leave_layer;
  const int64_t cols = int64_t{layers} * p, panels = (cols + kPanelRows - 1) / kPanelRows;
  multiply({{&packed_.per_layer_projection, &per_layer_, panels}}, stream_, thread);
  const float project_scale = 1.0f / std::sqrt(static_cast<float>(config_.hidden));
  parallel(thread, row_count_, [&](int64_t i) {
    const InputRow& row = active(static_cast<int>(i));
    float* mixed = per_layer_.row(i);
    float* table = per_layer_table_.row(i);
    const int id = row.soft != nullptr ? config_.pad_id : config_.embedding_row(row.token);
    table_readers_[static_cast<size_t>(thread)]->floats(id, table);
    scale_row(mixed, project_scale, cols);
    for (int l = 0; l < layers; ++l) {
      norm_row(mixed + l * p, weights_.per_layer_norm.data(), p, config_.norm_epsilon, mixed + l * p);
    }
    mix_rows(mixed, table, std::sqrt(static_cast<float>(p)), 0.7071067811865476f, cols, mixed);
  });
}

void Executor::qkv(int layer, int thread) {
  const PackedLayer& packed = packed_layer(layer);
  parallel(thread, row_count_, [&](int64_t i) {
    norm_row(stream_.row(i), layer_weights(layer).input_norm.data(), config_.hidden, config_.norm_epsilon,
             normed_.row(i));
    normed_.finish(i);
  });
  // Where every row stops at this layer's KV, nobody reads the queries.
  const int64_t q_panels = any_output_ || layer != program_->leave_layer ? packed.q.panels : 0;
  const Product q{&packed.q, &query_, q_panels}, k{&packed.k, &key_}, v{&packed.v, &value_};
  if (packed.v.present()) {
    multiply({q, k, v}, normed_, thread);
  } else if (packed.k.present()) {
    multiply({q, k}, normed_, thread);
  } else {
    multiply({q}, normed_, thread);
  }
  parallel(thread, row_count_, [&](int64_t i) {
    finish_queries(layer, static_cast<int>(i));
    if (config_.owns_kv(layer)) store_kv(layer, static_cast<int>(i));
  });
}

void Executor::finish_queries(int layer, int row) const {
  const model::LayerConfig& config = layer_config(layer);
  const Rotary& turn = rotary(config.kind);
  for (int head = 0; head < config.heads; ++head) {
    float* query = query_.row(row) + head * config.head_dim;
    norm_row(query, layer_weights(layer).q_norm.data(), config.head_dim, config_.norm_epsilon, query);
    rotate_row(query, config.head_dim / 2, turn.pairs(), turn.cosines(row), turn.sines(row));
  }
}

/// A row's keys and values, normed and turned, into the cache.
void Executor::store_kv(int layer, int row) const {
  const model::LayerConfig& config = layer_config(layer);
  const Rotary& turn = rotary(config.kind);
  const int hd = config.head_dim;
  const kv::HostPages pages(*caches_[static_cast<size_t>(active(row).cache)]);
  const auto store = [&](const float* from, int part, int head) {
    std::byte* slot = pages.slot(layer, part, head, active(row).position);
    if (layout_.storage() == kv::Storage::kBf16) {
      store_bf16(from, hd, reinterpret_cast<uint16_t*>(slot));
    } else {
      std::memcpy(slot, from, static_cast<size_t>(hd) * sizeof(float));
    }
  };
  for (int head = 0; head < config.kv_heads; ++head) {
    float* key = key_.row(row) + head * hd;
    if (config.k_is_v) {  // the cache holds n; V is n, K is rebuilt from it
      norm_row(key, nullptr, hd, config_.norm_epsilon, key);
      store(key, 0, head);
      continue;
    }
    norm_row(key, layer_weights(layer).k_norm.data(), hd, config_.norm_epsilon, key);
    rotate_row(key, hd / 2, turn.pairs(), turn.cosines(row), turn.sines(row));
    store(key, 0, head);
    float* value = value_.row(row) + head * hd;
    if (config.v_norm) norm_row(value, nullptr, hd, config_.norm_epsilon, value);
    store(value, 1, head);
  }
}

void Executor::keep_outputs(int thread) {
  pool_.barrier();  // walk() has read the row count after the last phase on every thread before it changes
  once(thread, [&] {
    int kept = 0;
    const auto move = [&](const Rows& rows, int from) {
      std::memcpy(rows.row(kept), rows.row(from), static_cast<size_t>(rows.cols()) * sizeof(float));
    };
    for (int i = 0; i < row_count_; ++i) {
      if (!active(i).output) continue;
      if (kept != i) {
        rows_[static_cast<size_t>(kept)] = rows_[static_cast<size_t>(i)];
        move(stream_, i);
        move(query_, i);
        if (config_.per_layer_dim > 0) move(per_layer_, i);
        sliding_rotary_.move_row(i, kept);
        full_rotary_.move_row(i, kept);
      }
      ++kept;
    }
    row_count_ = kept;
  });
}

/// stream = stream + norm(projected); plainly where there is no norm.
void Executor::add_branch(const std::vector<float>& norm, int row) const {
  if (norm.empty()) {
    add_scaled_row(projected_.row(row), 1.0f, config_.hidden, stream_.row(row));
  } else {
    add_norm_row(projected_.row(row), norm.data(), config_.hidden, config_.norm_epsilon, stream_.row(row));
  }
}

void Executor::end_layer(int layer, int row) const {
  scale_row(stream_.row(row), layer_weights(layer).scalar, config_.hidden);
  const auto& taps = program_->taps;
  const auto width = static_cast<size_t>(config_.hidden);
  for (size_t i = 0; i < taps.size(); ++i) {
    if (taps[i] != layer) continue;
    const size_t place = static_cast<size_t>(rows_[static_cast<size_t>(row)]) * taps.size() + i;
    std::memcpy(taps_ + place * width, stream_.row(row), width * sizeof(float));
  }
}

void Executor::attention_out(int layer, int thread) {
  if (!finishes_heads(layer))
    parallel(thread, row_count_, [&](int64_t i) { attended_.finish(i, 0, layer_config(layer).q_size()); });
  multiply({{&packed_layer(layer).o, &projected_}}, attended_, thread);
  parallel(thread, row_count_,
           [&](int64_t i) { add_branch(layer_weights(layer).post_attention_norm, static_cast<int>(i)); });
}

void Executor::gate_up(int layer, int thread) {
  const PackedLayer& packed = packed_layer(layer);
  const bool moe = config_.experts > 0;
  parallel(thread, row_count_, [&](int64_t i) {
    norm_row(stream_.row(i), layer_weights(layer).pre_mlp_norm.data(), config_.hidden, config_.norm_epsilon,
             normed_.row(i));
    normed_.finish(i);
    if (!moe) return;
    const model::MoeWeights& weights = layer_weights(layer).moe;
    norm_row(stream_.row(i), weights.router_scale.data(), config_.hidden, config_.norm_epsilon,
             routed_.row(i));
    scale_row(routed_.row(i), 1.0f / std::sqrt(static_cast<float>(config_.hidden)), config_.hidden);
    routed_.finish(i);
    norm_row(stream_.row(i), weights.pre_norm.data(), config_.hidden, config_.norm_epsilon,
             expert_input_.row(i));
    expert_input_.finish(i);
  });

  Column* columns = thread_columns_[static_cast<size_t>(thread)].data();
  for (int i = 0; i < row_count_; ++i) columns[i] = normed_.column(i, activated_.row(i));
  const std::span<const Column> all(columns, static_cast<size_t>(row_count_));
  const int64_t chunk = gated_panels_per_chunk(packed.gate), panels = packed.gate.panels;
  parallel(thread, (panels + chunk - 1) / chunk, [&](int64_t i) {
    const int64_t begin = i * chunk, end = std::min(panels, begin + chunk);
    matmul_gated(packed.gate, packed.up, config_.activation, all, begin, end);
    for (int row = 0; row < row_count_; ++row) activated_.finish(row, begin * kPanelRows, end * kPanelRows);
  });
  if (!moe) return;
  multiply({{&packed.router, &router_scores_}}, routed_, thread);
  parallel(thread, row_count_, [&](int64_t i) { route(layer, static_cast<int>(i)); });
}

void Executor::down(int layer, int thread) {
  multiply({{&packed_layer(layer).down, &projected_}}, activated_, thread);
  if (config_.experts > 0) {
    once(thread, [&] { sort_choices(); });
    experts(layer, thread);
  }
  parallel(thread, row_count_, [&](int64_t i) {
    const int row = static_cast<int>(i);
    if (config_.experts > 0) add_experts(layer, row);
    add_branch(layer_weights(layer).post_mlp_norm, row);
    if (config_.per_layer_dim == 0) {
      end_layer(layer, row);
    } else {
      stream_.finish(i);
    }
  });
}

void Executor::per_layer_mix(int layer, int thread) {
  const model::LayerWeights& weights = layer_weights(layer);
  const int p = config_.per_layer_dim;
  multiply({{&packed_layer(layer).per_layer_gate, &gated_}}, stream_, thread);
  parallel(thread, row_count_, [&](int64_t i) {
    gelu_times_row(gated_.row(i), per_layer_.row(i) + int64_t{layer} * p, p);
    gated_.finish(i);
  });
  multiply({{&packed_layer(layer).per_layer_projection, &projected_}}, gated_, thread);
  parallel(thread, row_count_, [&](int64_t i) {
    add_branch(weights.per_layer.post_norm, static_cast<int>(i));
    end_layer(layer, static_cast<int>(i));
  });
}

void Executor::head(int thread) {
  parallel(thread, row_count_, [&](int64_t i) {
    norm_row(stream_.row(i), weights_.final_norm.data(), config_.hidden, config_.norm_epsilon,
             hidden_.row(i));
    hidden_.finish(i);
  });
  MatmulOptions options;
  if (config_.logit_softcap > 0) options = {Epilogue::kSoftcap, config_.logit_softcap};
  multiply({{network_.head, &logits_}}, hidden_, thread, options);
}

}  // namespace slip::backend::cpu
