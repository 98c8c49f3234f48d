// Made-up pictures in a request: soft rows of noise, the same for the same number, at places of a prompt.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base/noise.h"
#include "engine/request.h"
#include "model/config.h"

namespace slip::test {

class SoftPictures {
 public:
  explicit SoftPictures(const model::Config& config)
      : hidden_(config.hidden),
        both_ways_(config.bidirectional_media),
        placeholder_(config.placeholder_ids.empty() ? config.pad_id : config.placeholder_ids.front()) {}

  backend::SoftRowsHandle rows(int number, int count) const {
    std::vector<float> values(static_cast<size_t>(count) * static_cast<size_t>(hidden_));
    const uint64_t key = noise_key(991, static_cast<uint64_t>(number));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(2 * keyed_uniform(key, i) - 1);
    return std::make_shared<backend::HostSoftRows>(std::move(values), hidden_);
  }

  /// Puts picture `number` of `count` rows in front of token `at` of the prompt. From front to back.
  void insert(engine::Request& request, int number, int count, int at) const {
    const auto place = request.prompt.begin() + std::min(at, static_cast<int>(request.prompt.size()) - 1);
    const auto first = static_cast<int>(place - request.prompt.begin());
    request.prompt.insert(place, static_cast<size_t>(count), placeholder_);
    kv::MediaKey key{};
    key[0] = static_cast<std::byte>(number);
    key[1] = static_cast<std::byte>(count);
    request.media.push_back(
        {.first = first, .rows = count, .both_ways = both_ways_, .key = key, .soft = rows(number, count)});
  }

 private:
  int hidden_;
  bool both_ways_;
  int placeholder_;
};

}  // namespace slip::test
