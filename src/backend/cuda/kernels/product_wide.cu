// The products of 9 to 16 rows.
#include "backend/cuda/kernels/product_kernel.h"

namespace slip::backend::cuda {

ProductKernel wide_kernel(bool deep, bool mixed, Format format, int groups) {
  return deep ? kernel_for<2, true>(mixed, format, groups) : kernel_for<2, false>(mixed, format, groups);
}

}  // namespace slip::backend::cuda
