// Which products are shared by twins (twins.h).
#pragma once

#include "backend/cuda/gpu.h"
#include "backend/cuda/kernels/job.h"

namespace slip::backend::cuda {

/// Whether twins shall and can take a product.
bool suits_twins(const Job& job, const GpuInfo& gpu);

/// Each segment of a job, whose blocks are pairs, as one of each half of the columns.
Job shared_by_twins(const Job& job);

}  // namespace slip::backend::cuda
