#include "checkpoint/folder.h"

#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/tiny_model.h"

namespace slip::checkpoint {
namespace {

using test::expect_bad_file;
using test::FileTensors;
using test::TempFolder;
using test::TinyModel;

/// Spreads tensors over two shards by turns, with the index that says so.
std::string write_shards(const TempFolder& folder, const FileTensors& tensors) {
  FileTensors shards[2];
  std::string index = R"({"metadata":{"total_size":1},"weight_map":{)";
  size_t turn = 0;
  for (const auto& [name, tensor] : tensors) {
    index += (turn == 0 ? "\"" : ",\"") + name + "\":\"part-" + std::to_string(turn % 2) + ".safetensors\"";
    shards[turn++ % 2][name] = tensor;
  }
  folder.write("part-0.safetensors", test::safetensors(shards[0]));
  folder.write("part-1.safetensors", test::safetensors(shards[1]));
  return folder.write("model.safetensors.index.json", index + "}}");
}

TEST(Folder, shards_named_by_an_index_make_one_checkpoint) {
  const TinyModel model;
  const TempFolder folder;
  folder.write("config.json", model.config());
  write_shards(folder, model.tensors());
  const auto checkpoint = open(folder.path());
  EXPECT_EQ(checkpoint->files.size(), 2u);
  EXPECT_EQ(checkpoint->tensors.size(), model.tensors().size());
  EXPECT_EQ(checkpoint->file_bytes, std::filesystem::file_size(folder / "part-0.safetensors") +
                                        std::filesystem::file_size(folder / "part-1.safetensors"));
}

TEST(Folder, a_fault_in_a_shard_names_the_shard) {
  const TinyModel model;
  const TempFolder folder;
  folder.write("config.json", model.config());
  FileTensors tensors = model.tensors();
  tensors.at(model.prefix() + "norm.weight").shape = {1, 128};
  write_shards(folder, tensors);
  expect_bad_file([&] { open(folder.path()); }, {"part-", ".safetensors", "norm.weight"});
}

TEST(Folder, an_index_may_not_reach_out_of_its_folder) {
  const TempFolder outside;
  const std::string secret = outside.write("x.safetensors", test::safetensors({{"w", {"U8", {1}, "1"}}}));
  for (const std::string& shard : {std::string("../x.safetensors"), secret, std::string(".."),
                                   std::string(""), std::string("a/b.safetensors"),
                                   std::string("a\\\\b.safetensors"), std::string("x\\u0000.safetensors")}) {
    SCOPED_TRACE(shard);
    const TempFolder folder;
    folder.write("a/b.safetensors", test::safetensors({{"w", {"U8", {1}, "1"}}}));
    folder.write("model.safetensors.index.json", R"({"weight_map":{"w":")" + shard + "\"}}");
    expect_bad_file([&] { map_tensors(folder.path()); },
                    {"index.json", "names the shard", "not a file name"});
  }
}

TEST(Folder, an_index_and_its_shards_must_agree) {
  const TempFolder folder;
  const auto index = [&](const std::string& text) { folder.write("model.safetensors.index.json", text); };
  const auto bad = [&](std::initializer_list<std::string> words) {
    expect_bad_file([&] { map_tensors(folder.path()); }, words);
  };
  folder.write("a.safetensors", test::safetensors({{"w", {"U8", {1}, "1"}}}));
  folder.write("b.safetensors", test::safetensors({{"w", {"U8", {1}, "1"}}, {"x", {"U8", {1}, "1"}}}));
  index(R"({"weight_map":{"w":"c.safetensors"}})");
  bad({"index.json", "'c.safetensors'", "missing"});
  index(R"({"weight_map":{"w":"a.safetensors","x":"a.safetensors"}})");
  bad({"a.safetensors", "tensor 'x'", "is not"});
  index(R"({"weight_map":{"w":"a.safetensors","x":"b.safetensors"}})");
  bad({"b.safetensors", "tensor 'w'", "another file"});
  index(R"({"weight_map":{"w":7}})");
  bad({"weight_map.w must be a string"});
  index(R"({"weight_map":{"w":null}})");
  bad({"'w' has no shard"});
  index(R"({"weight_map":{}})");
  bad({"weight_map is empty"});
  index(R"({})");
  bad({"weight_map is missing"});
  index("{");
  bad({"index.json", "not valid JSON"});
  index(R"({"weight_map":{"w":"b.safetensors"}})");
  EXPECT_EQ(map_tensors(folder.path()).tensors.size(), 2u);
}

TEST(Folder, a_folder_without_weights_says_what_it_has_instead) {
  const TempFolder folder;
  expect_bad_file([&] { map_tensors(folder.path()); }, {folder.path(), "no weights", "model.safetensors"});
  folder.write("pytorch_model.bin", "x");
  expect_bad_file([&] { map_tensors(folder.path()); }, {"'pytorch_model.bin'", "PyTorch"});
  folder.write("model-Q4_0.gguf", "x");
  expect_bad_file([&] { map_tensors(folder.path()); },
                  {"'model-Q4_0.gguf'", "GGUF files are not supported yet"});
  folder.write("model-00001-of-00002.safetensors", "x");
  expect_bad_file([&] { map_tensors(folder.path()); }, {"00001-of-00002", "model.safetensors.index.json"});
}

TEST(Folder, a_path_that_is_no_model_folder_is_refused) {
  const TempFolder folder;
  expect_bad_file([&] { open(folder / "nowhere"); }, {"nowhere", "no such folder"});
  expect_bad_file([&] { open(folder.path()); }, {folder.path(), "no config.json"});
  expect_bad_file([&] { open(folder.write("file", "x")); }, {"is a file"});
  expect_bad_file([&] { open(folder.write("m.gguf", "x")); }, {"is a file", "GGUF"});
  expect_bad_file([&] { open(folder.path()); }, {"no config.json", "'m.gguf'", "GGUF"});
  std::filesystem::create_directory(folder / "config.json");
  expect_bad_file([&] { open(folder.path()); }, {"no config.json"});
}

TEST(Folder, an_empty_weight_file_is_refused) {
  const TempFolder folder;
  folder.write("config.json", TinyModel{}.config());
  folder.write("model.safetensors", "");
  expect_bad_file([&] { open(folder.path()); }, {"model.safetensors", "empty"});
}

}  // namespace
}  // namespace slip::checkpoint
