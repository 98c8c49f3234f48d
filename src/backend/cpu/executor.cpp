#include "backend/cpu/executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/elementwise.h"
#include "base/check.h"

namespace slip::backend::cpu {

using model::Field;
using model::LayerKind;
using model::Phase;
using model::PhaseKind;

Executor::Executor(const model::Program& program, const PackedWeights& packed, ThreadPool& pool,
                   const CpuOptions& options, const kv::Layout& layout)
    : program_(program),
      config_(program.config),
      weights_(*program.weights),
      packed_(packed),
      pool_(pool),
      layout_(layout),
      max_rows_(options.max_rows),
      mode_(packed.any_affine ? options.activations : ActivationMode::kFloat) {
  const auto threads = static_cast<size_t>(pool.size());
  rows_.resize(static_cast<size_t>(max_rows_));
  blocks_.resize(static_cast<size_t>(max_rows_));
  thread_scratch_.resize(threads);
  thread_partials_.resize(threads);
  thread_columns_.resize(threads);
  for (auto& columns : thread_columns_) columns.resize(static_cast<size_t>(kMaxProducts * max_rows_));
  for (size_t t = 0; t < threads; ++t) {
    embed_readers_.push_back(std::make_unique<tensor::RowReader>(weights_.embed));
    table_readers_.push_back(std::make_unique<tensor::RowReader>(weights_.per_layer_embed));
  }
  if (config_.experts > 0) {
    const auto choices = static_cast<size_t>(max_rows_ * config_.experts_per_token);
    choices_.resize(choices);
    sorted_.resize(choices);
    shares_.resize(choices);
    expert_columns_.resize(choices);
    expert_down_columns_.resize(choices);
    spans_.resize(static_cast<size_t>(config_.experts));
    expert_counts_.resize(static_cast<size_t>(config_.experts) + 1);
  }
  Carver counter;
  plan_memory(counter);
  memory_ = Buffer(counter.used(), "activations");
  Carver placer(memory_.data());
  plan_memory(placer);
  fill_page_angles(LayerKind::kSliding);
  fill_page_angles(LayerKind::kFull);
}

void Executor::plan_memory(Carver& carver) {
  int widest_q = 0, widest_kv = 0, widest_mlp = 0;
  for (const auto& layer : config_.layers) {
    widest_q = std::max(widest_q, layer.q_size());
    widest_kv = std::max(widest_kv, layer.kv_size());
    widest_mlp = std::max(widest_mlp, layer.intermediate);
  }
  const int h = config_.hidden;
  const auto make = [&](int64_t cols, int64_t rows = 0) {
    return Rows(carver, rows > 0 ? rows : max_rows_, cols, mode_);
  };
  stream_ = make(h);
  normed_ = make(h);
  query_ = make(widest_q);
  key_ = make(widest_kv);
  value_ = make(widest_kv);
  attended_ = make(widest_q);
  activated_ = make(widest_mlp);
  projected_ = make(h);
  // Nothing comes after the head to amplify a rounding: 8 bits cost the golden logits 0.6 %, where inside the
  // layers they cost 10 % and more.
  hidden_ = Rows(carver, max_rows_, h, mode_ == ActivationMode::kInt16 ? ActivationMode::kInt8 : mode_);
  if (config_.per_layer_dim > 0) {
    per_layer_ = make(int64_t{config_.per_layer_dim} * config_.layer_count());
    per_layer_table_ = make(int64_t{config_.per_layer_dim} * config_.layer_count());
    gated_ = make(config_.per_layer_dim);
  }
  if (config_.experts > 0) {
    const int64_t choices = int64_t{max_rows_} * config_.experts_per_token;
    routed_ = make(h);
    router_scores_ = make(config_.experts);
    expert_input_ = make(h);
    expert_activated_ = make(config_.expert_intermediate, choices);
    expert_out_ = make(h, choices);
  }
  logits_ = Rows(carver, max_rows_, config_.vocab, ActivationMode::kFloat);
  sliding_angles_ = plan_angles(carver, LayerKind::kSliding);
  full_angles_ = plan_angles(carver, LayerKind::kFull);
  plan_attention_memory(carver);
}

const model::LayerConfig* Executor::layer_of(LayerKind kind) const {
  for (const auto& layer : config_.layers) {
    if (layer.kind == kind) return &layer;
  }
  return nullptr;
}

Executor::Angles Executor::plan_angles(Carver& carver, LayerKind kind) const {
  Angles angles;
  const model::LayerConfig* layer = layer_of(kind);
  if (layer == nullptr) return angles;
  angles.pairs = layer->rotated_pairs;
  const auto pairs = static_cast<size_t>(angles.pairs);
  angles.cosines = carver.take<float>(static_cast<size_t>(max_rows_) * pairs);
  angles.sines = carver.take<float>(static_cast<size_t>(max_rows_) * pairs);
  if (layer->k_is_v) {
    const auto pages = static_cast<size_t>(config_.max_positions / kv::kPagePositions + 1);
    angles.page_cosines = carver.take<float>(kv::kPagePositions * pairs);
    angles.page_sines = carver.take<float>(kv::kPagePositions * pairs);
    angles.base_cosines = carver.take<float>(pages * pairs);
    angles.base_sines = carver.take<float>(pages * pairs);
  }
  return angles;
}

void Executor::fill_page_angles(LayerKind kind) const {
  const Angles& at = angles(kind);
  if (at.page_cosines == nullptr) return;
  const model::LayerConfig& layer = *layer_of(kind);
  for (int i = 0; i < at.pairs; ++i) {
    const double frequency = model::Config::rope_frequency(layer, i);
    for (int p = 0; p < kv::kPagePositions; ++p) {
      at.page_cosines[p * at.pairs + i] = static_cast<float>(std::cos(p * frequency));
      at.page_sines[p * at.pairs + i] = static_cast<float>(std::sin(p * frequency));
    }
    for (int page = 0; page <= config_.max_positions / kv::kPagePositions; ++page) {
      const double angle = -frequency * page * kv::kPagePositions;
      at.base_cosines[page * at.pairs + i] = static_cast<float>(std::cos(angle));
      at.base_sines[page * at.pairs + i] = static_cast<float>(std::sin(angle));
    }
  }
}

void Executor::fill_row_angles(LayerKind kind, int row) const {
  const Angles& at = angles(kind);
  if (at.pairs == 0) return;
  const model::LayerConfig& layer = *layer_of(kind);
  const int position = rows_[static_cast<size_t>(row)].position;
  for (int i = 0; i < at.pairs; ++i) {
    const double angle = position * model::Config::rope_frequency(layer, i);
    at.cosines[row * at.pairs + i] = static_cast<float>(std::cos(angle));
    at.sines[row * at.pairs + i] = static_cast<float>(std::sin(angle));
  }
}

Output Executor::run(const Batch& batch) {
  SLIP_CHECK(static_cast<int>(batch.rows.size()) <= max_rows_);
  batch_ = &batch;
  row_count_ = static_cast<int>(batch.rows.size());
  any_output_ = false;
  for (int i = 0; i < row_count_; ++i) {
    const Row& row = batch.rows[static_cast<size_t>(i)];
    any_output_ |= row.output;
    rows_[static_cast<size_t>(i)] = {row.position, row.sequence, i};
  }
  pool_.run([this](int thread) { walk(thread); });
  // Kernels write whole panels; a vocabulary that is no multiple of the padding is closed up here.
  if (logits_.stride() != config_.vocab) {
    for (int i = 1; i < row_count_; ++i) {
      std::memmove(logits_.row(0) + int64_t{i} * config_.vocab, logits_.row(i),
                   static_cast<size_t>(config_.vocab) * sizeof(float));
    }
  }
  if (hidden_.stride() != config_.hidden) {
    for (int i = 1; i < row_count_; ++i) {
      std::memmove(hidden_.row(0) + int64_t{i} * config_.hidden, hidden_.row(i),
                   static_cast<size_t>(config_.hidden) * sizeof(float));
    }
  }
  return {row_count_, logits_.row(0), hidden_.row(0)};
}

void Executor::walk(int thread) {
  for (const Phase& next : program_.phases) {
    phase(next, thread);
    if (observe) once(thread, [&] { show(next); });
    if (row_count_ == 0)
      return;  // a prompt chunk that wants nothing: its KV is stored, nothing is left to do
  }
}

void Executor::phase(const Phase& phase, int thread) {
  switch (phase.kind) {
    case PhaseKind::kEmbed: return embed(thread);
    case PhaseKind::kPerLayerInputs: return per_layer_inputs(thread);
    case PhaseKind::kQkv: return qkv(phase.layer, thread);
    case PhaseKind::kKeepOutputs: return keep_outputs(thread);
    case PhaseKind::kAttend: return attend(phase.layer, thread);
    case PhaseKind::kAttentionOut: return attention_out(phase.layer, thread);
    case PhaseKind::kGateUp: return gate_up(phase.layer, thread);
    case PhaseKind::kDown: return down(phase.layer, thread);
    case PhaseKind::kPerLayerMix: return per_layer_mix(phase.layer, thread);
    case PhaseKind::kHead: return head(thread);
  }
}

void Executor::embed(int thread) {
  parallel(thread, row_count_, [&](int64_t i) {
    const Row& row = batch_->rows[static_cast<size_t>(i)];
    float* stream = stream_.row(i);
    if (row.embedding != nullptr) {
      std::memcpy(stream, row.embedding, static_cast<size_t>(config_.hidden) * sizeof(float));
    } else {
      embed_readers_[static_cast<size_t>(thread)]->floats(config_.embedding_row(row.token), stream);
      scale_row(stream, config_.embed_scale, config_.hidden);
    }
    if (config_.per_layer_dim > 0) stream_.finish(i);
    fill_row_angles(LayerKind::kSliding, static_cast<int>(i));
    fill_row_angles(LayerKind::kFull, static_cast<int>(i));
  });
}

void Executor::per_layer_inputs(int thread) {
  const int p = config_.per_layer_dim;
  const int layers = any_output_ ? config_.layer_count() : config_.last_kv_layer();
  const int64_t cols = int64_t{layers} * p, panels = (cols + kPanelRows - 1) / kPanelRows;
  multiply({{&packed_.per_layer_projection, &per_layer_, panels}}, stream_, thread);
  const float project_scale = 1.0f / std::sqrt(static_cast<float>(config_.hidden));
  parallel(thread, row_count_, [&](int64_t i) {
    const Row& row = batch_->rows[static_cast<size_t>(i)];
    float* mixed = per_layer_.row(i);
    float* table = per_layer_table_.row(i);
    const int id = row.embedding != nullptr ? config_.pad_id : config_.embedding_row(row.token);
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
  const int64_t q_panels = any_output_ || layer != config_.last_kv_layer() ? packed.q.panels : 0;
  const Product q{&packed.q, &query_, q_panels}, k{&packed.k, &key_}, v{&packed.v, &value_};
  if (packed.v.present()) {
    multiply({q, k, v}, normed_, thread);
  } else if (packed.k.present()) {
    multiply({q, k}, normed_, thread);
  } else {
    multiply({q}, normed_, thread);
  }
  parallel(thread, row_count_, [&](int64_t i) { finish_heads(layer, static_cast<int>(i)); });
}

/// Head norms and rotation of one row, and its keys and values into the cache.
void Executor::finish_heads(int layer, int row) const {
  const model::LayerConfig& config = layer_config(layer);
  const model::LayerWeights& weights = layer_weights(layer);
  const Angles& at = angles(config.kind);
  const int hd = config.head_dim;
  const float* cosines = at.cosines + row * at.pairs;
  const float* sines = at.sines + row * at.pairs;
  for (int head = 0; head < config.heads; ++head) {
    float* query = query_.row(row) + head * hd;
    norm_row(query, weights.q_norm.data(), hd, config_.norm_epsilon, query);
    rotate_row(query, hd / 2, at.pairs, cosines, sines);
  }
  if (!config_.owns_kv(layer)) return;
  const ActiveRow& active = rows_[static_cast<size_t>(row)];
  const kv::Cache& cache = *batch_->sequences[static_cast<size_t>(active.sequence)];
  const auto store = [&](const float* from, int part, int head) {
    std::byte* slot = cache.slot(layer, part, head, active.position);
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
    norm_row(key, weights.k_norm.data(), hd, config_.norm_epsilon, key);
    rotate_row(key, hd / 2, at.pairs, cosines, sines);
    store(key, 0, head);
    float* value = value_.row(row) + head * hd;
    norm_row(value, nullptr, hd, config_.norm_epsilon, value);
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
      if (!batch_->rows[static_cast<size_t>(i)].output) continue;
      if (kept != i) {
        rows_[static_cast<size_t>(kept)] = rows_[static_cast<size_t>(i)];
        move(stream_, i);
        move(query_, i);
        if (config_.per_layer_dim > 0) move(per_layer_, i);
        for (const LayerKind kind : {LayerKind::kSliding, LayerKind::kFull}) {
          const Angles& at = angles(kind);
          std::memcpy(at.cosines + kept * at.pairs, at.cosines + i * at.pairs,
                      static_cast<size_t>(at.pairs) * sizeof(float));
          std::memcpy(at.sines + kept * at.pairs, at.sines + i * at.pairs,
                      static_cast<size_t>(at.pairs) * sizeof(float));
        }
      }
      ++kept;
    }
    row_count_ = kept;
  });
}

void Executor::attention_out(int layer, int thread) {
  parallel(thread, row_count_, [&](int64_t i) { attended_.finish(i); });
  multiply({{&packed_layer(layer).o, &projected_}}, attended_, thread);
  parallel(thread, row_count_, [&](int64_t i) {
    add_norm_row(projected_.row(i), layer_weights(layer).post_attention_norm.data(), config_.hidden,
                 config_.norm_epsilon, stream_.row(i));
  });
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
  const int64_t piece = std::max<int64_t>(1, panels_per_piece(packed.gate) / 2), panels = packed.gate.panels;
  parallel(thread, (panels + piece - 1) / piece, [&](int64_t i) {
    matmul_gelu(packed.gate, packed.up, all, i * piece, std::min(panels, (i + 1) * piece));
  });
  // A choice between experts can hang on the last bit of a score, so the router always reads exact rows.
  if (moe) multiply({{&packed.router, &router_scores_}}, routed_, thread, {}, /*exact=*/true);
  parallel(thread, row_count_, [&](int64_t i) {
    activated_.finish(i);
    if (moe) route(layer, static_cast<int>(i));
  });
}

void Executor::down(int layer, int thread) {
  const model::LayerWeights& weights = layer_weights(layer);
  multiply({{&packed_layer(layer).down, &projected_}}, activated_, thread);
  if (config_.experts > 0) {
    once(thread, [&] { sort_choices(); });
    experts(layer, thread);
  }
  parallel(thread, row_count_, [&](int64_t i) {
    if (config_.experts > 0) add_experts(layer, static_cast<int>(i));
    add_norm_row(projected_.row(i), weights.post_mlp_norm.data(), config_.hidden, config_.norm_epsilon,
                 stream_.row(i));
    if (config_.per_layer_dim == 0) {
      scale_row(stream_.row(i), weights.scalar, config_.hidden);
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
    add_norm_row(projected_.row(i), weights.per_layer.post_norm.data(), config_.hidden, config_.norm_epsilon,
                 stream_.row(i));
    scale_row(stream_.row(i), weights.scalar, config_.hidden);
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
  multiply({{&packed_.head, &logits_}}, hidden_, thread, options);
}

int64_t Executor::panels_per_piece(const PackedMatrix& matrix) {
  return std::clamp<int64_t>((int64_t{128} << 10) / static_cast<int64_t>(matrix.panel_bytes), 1, 64);
}

void Executor::multiply(std::initializer_list<Product> products, const Rows& input, int thread,
                        const MatmulOptions& options, bool exact) {
  const auto width = static_cast<size_t>(row_count_);
  Column* columns = thread_columns_[static_cast<size_t>(thread)].data();
  const auto pieces_of = [](const Product& product) {
    const int64_t panels = product.panels < 0 ? product.matrix->panels : product.panels;
    const int64_t piece = panels_per_piece(*product.matrix);
    return std::pair((panels + piece - 1) / piece, panels);
  };
  int64_t pieces = 0;
  size_t at = 0;
  for (const Product& product : products) {
    for (int i = 0; i < row_count_; ++i) columns[at++] = input.column(i, product.out->row(i), exact);
    pieces += pieces_of(product).first;
  }
  parallel(thread, pieces, [&](int64_t i) {
    const Column* first = columns;
    for (const Product& product : products) {
      const auto [count, panels] = pieces_of(product);
      const int64_t piece = panels_per_piece(*product.matrix);
      if (i < count) {
        matmul(*product.matrix, {first, width}, i * piece, std::min(panels, (i + 1) * piece), options);
        return;
      }
      i -= count;
      first += width;
    }
  });
}

void Executor::show(const Phase& phase) const {
  const auto send = [&](const Rows& rows, int64_t cols) {
    observe(phase, rows.row(0), row_count_, cols, rows.stride());
  };
  switch (phase.output) {
    case Field::kNone: return;
    case Field::kStream: return send(stream_, config_.hidden);
    case Field::kPerLayer: return send(per_layer_, per_layer_.cols());
    case Field::kQuery: return send(query_, layer_config(phase.layer).q_size());
    case Field::kAttended: return send(attended_, layer_config(phase.layer).q_size());
    case Field::kActivated: return send(activated_, layer_config(phase.layer).intermediate);
    case Field::kLogits: return send(logits_, config_.vocab);
  }
}

}  // namespace slip::backend::cpu
