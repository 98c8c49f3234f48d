// The products of up to 8 rows.
#include "backend/cuda/kernels/product_kernel.h"

namespace slip::backend::cuda {

ProductKernel narrow_kernel(bool deep, bool mixed, Format format, int groups) {
  return deep ? kernel_for<1, true>(mixed, format, groups) : kernel_for<1, false>(mixed, format, groups);
}

}  // namespace slip::backend::cuda
