// What every block of threads has to do for every product of a step, worked out on the host: so that the
// kernel, where every instruction between two products counts, has little to ask.
#pragma once

#include <vector>

#include "backend/cuda/kernels/job.h"

namespace slip::backend::cuda {

struct DutyTable {
  std::vector<Duty> duties;       // [product][block]
  std::vector<WarpShare> shares;  // [Duty::shares][kWarps], each set once
};
/// Of jobs that StepList::finish() has found space for. `skipped`: parts that a benchmark leaves out.
DutyTable duties_of(const std::vector<Job>& jobs, int blocks, int skipped);

}  // namespace slip::backend::cuda
