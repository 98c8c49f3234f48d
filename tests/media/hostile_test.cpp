// Every hostile picture goes through the worker as a sender's would, and gives its own error.
#include "media/hostile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "media/decoder.h"
#include "media/samples.h"

namespace slip::media {
namespace {

using test::Hostile;

struct Result {
  Fault fault = Fault::kNone;
  std::string message;
};

Result result_of(Decoder& decoder, const Hostile& hostile) {
  try {
    const ImagePatches patches = decoder.decode(test::bytes_of(hostile.file), hostile.name, {.budget = 70});
    EXPECT_GT(patches.soft_tokens, 0) << hostile.name;
    return {};
  } catch (const Refused& refused) {
    return {refused.fault(), refused.what()};
  }
}

size_t sentences(const std::string& text) {
  size_t count = 1;
  for (size_t at = text.find(". "); at != std::string::npos; at = text.find(". ", at + 1)) ++count;
  return count;
}

TEST(Hostile, every_file_gives_its_error_and_the_parent_lives) {
  Decoder decoder({.worker = {.program = SLIP_MEDIA_WORKER}});
  const std::vector<Hostile> files = test::hostile_files();
  EXPECT_GE(files.size(), 120u);
  std::set<std::string> names;
  for (const Hostile& hostile : files) {
    EXPECT_TRUE(names.insert(hostile.name).second) << hostile.name << " is there twice";
    const Result result = result_of(decoder, hostile);
    EXPECT_NE(std::find(hostile.faults.begin(), hostile.faults.end(), result.fault), hostile.faults.end())
        << hostile.name << " gave fault " << static_cast<int>(result.fault) << ": " << result.message;
    if (result.fault == Fault::kNone) continue;
    EXPECT_TRUE(result.message.starts_with(hostile.name + ": ")) << result.message;
    EXPECT_LE(sentences(result.message), 2u) << result.message;
    EXPECT_FALSE(openai_code(result.fault).empty()) << hostile.name;
  }
  // The decoder still works.
  EXPECT_EQ(decoder.decode(test::bytes_of(test::png(test::picture(20, 10))), "x").image_width, 20);
}

}  // namespace
}  // namespace slip::media
