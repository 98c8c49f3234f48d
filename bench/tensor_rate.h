// What the tensor cores of this GPU give, alone; prints it.
#pragma once

namespace slip::backend::cuda {

class Gpu;
void time_tensor_cores(Gpu& gpu);

}  // namespace slip::backend::cuda
