#include "text/json_slices.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace slip::text {
namespace {

TEST(JsonSlices, the_value_of_a_key_is_the_text_that_stands_there) {
  constexpr std::string_view object =
      R"( { "a" : {"b": [1, "]}", {"c":"\"}"}]} ,"x":2.0, "messages" : [ 1 ,2 ],"s":"t\\" } )";
  EXPECT_EQ(member_slice(object, "a"), R"({"b": [1, "]}", {"c":"\"}"}]})");
  EXPECT_EQ(member_slice(object, "x"), "2.0");
  EXPECT_EQ(member_slice(object, "messages"), "[ 1 ,2 ]");
  EXPECT_EQ(member_slice(object, "s"), R"("t\\")");
  EXPECT_EQ(member_slice(object, "b"), "") << "keys of values inside do not count";
  EXPECT_EQ(member_slice("{}", "a"), "");
  EXPECT_EQ(member_slice("[]", "a"), "");
}

TEST(JsonSlices, a_key_is_found_however_it_is_spelled_and_the_last_of_two_counts) {
  EXPECT_EQ(member_slice(R"({"\u0061b":1,"c":2})", "ab"), "1");
  EXPECT_EQ(member_slice(R"({"a":1,"a":2})", "a"), "2");
}

TEST(JsonSlices, the_items_of_a_list_are_cut_as_a_parser_cuts_them) {
  const std::string text = R"([ {"a":[1,2]} , "x,y" ,3e1,[], null,"\\\"," , true ])";
  const auto list = nlohmann::json::parse(text);
  const auto items = item_slices(text);
  ASSERT_EQ(items.size(), list.size());
  for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(nlohmann::json::parse(items[i]), list[i]);
  EXPECT_TRUE(item_slices(" [ ] ").empty());
  EXPECT_TRUE(item_slices("{}").empty());
  EXPECT_EQ(item_slices("\xEF\xBB\xBF[1, 2]").size(), 2u) << "behind a byte order mark";
}

TEST(JsonSlices, text_that_ends_early_stays_inside_itself) {
  const std::string text = R"({"a":[{"b":"c\""},[1]],"d":"e"})";
  for (size_t end = 0; end < text.size(); ++end) {
    const std::string_view part = std::string_view(text).substr(0, end);
    member_slice(part, "d");
    item_slices(part.substr(std::min<size_t>(end, 5)));
  }
}

}  // namespace
}  // namespace slip::text
