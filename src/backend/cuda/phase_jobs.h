// What steps and wide passes say to their kernels in the same words, from a model's description.
#pragma once

#include "backend/cuda/kernels/step.h"
#include "kv/cache.h"
#include "model/program.h"

namespace slip::backend::cuda {

/// Where layer `source` keeps its keys and values.
CacheLayer cache_layer_of(const kv::Layout& layout, int source);

/// The most entries of Step::pages that one sequence takes.
size_t most_table_entries(const kv::Layout& layout);
/// Writes a sequence's pages from `table[used]` on, and to the group where they are; returns how many.
int write_pages(const kv::Cache& cache, std::byte** table, int used, RowGroup& group);

/// Without its rows and where they are.
PerLayerJob per_layer_job_of(const model::Config& config, const float* norm);

/// Which of the program's taps a layer is; -1 = none.
int tap_of(const model::Program& program, int layer);

}  // namespace slip::backend::cuda
