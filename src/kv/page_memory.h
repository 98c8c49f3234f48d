// PageMemory: where pages lie and how they are moved: the host's memory, or that of the device a backend computes
// on, whose addresses only that device can read. Nothing else in this room touches the bytes of a page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace slip::kv {

/// Throws Error(kOutOfMemory) naming `what`.
using Allocate = std::function<std::shared_ptr<std::byte>(size_t bytes, const char* what)>;

enum class MemorySide { kHost, kDevice };

/// Work on a device is queued behind the steps before it and done before the steps after it.
struct PageMemory {
  Allocate allocate;
  std::function<void(std::byte* to, const std::byte* from, size_t bytes)> copy;
  std::function<void(std::byte* to, int value, size_t bytes)> fill;  // as memset
  MemorySide side = MemorySide::kHost;
};

PageMemory host_memory();

/// Where a page lies, in the memory of its pool. An opaque number: host code turns it into a pointer only through
/// kv::HostPages, which checks the side; a device's backend passes it on.
enum class DevicePage : uint64_t {};

}  // namespace slip::kv
