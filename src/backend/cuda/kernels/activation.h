// The nonlinear functions of a gate.
#pragma once

#include "backend/cuda/kernels/device.h"
#include "model/config.h"

namespace slip::backend::cuda {

__device__ __forceinline__ float gelu_tanh(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);  // sqrt(2 / pi)
  return 0.5f * x * (1.0f + tanhf(inner));
}

__device__ __forceinline__ float activate(float x, model::Activation activation) {
  return activation == model::Activation::kGeluTanh ? gelu_tanh(x) : x / (1.0f + expf(-x));
}

}  // namespace slip::backend::cuda
