// Fuzzes the messages and tools of a request, from JSON to token ids: whatever comes in becomes a prompt in
// which only the template wrote control tokens, or an Error.
#include <fmt/format.h>

#include "base/error.h"
#include "fuzz/target.h"
#include "text/chat.h"
#include "text/conversation.h"
#include "text/json_slices.h"

namespace {

using nlohmann::json;
using slip::text::Conversation;
using slip::text::PromptOptions;
using slip::text::PromptPart;
using slip::text::Tokenizer;

/// All bytes, and Gemma's control tokens.
Tokenizer make_tokenizer() {
  namespace mark = slip::text::mark;
  json vocab = json::object(), added = json::array();
  for (int byte = 0; byte < 256; ++byte) vocab[fmt::format("<0x{:02X}>", byte)] = byte;
  int id = 256;
  for (const std::string_view control :
       {mark::kBos, mark::kTurn, mark::kTurnEnd, mark::kThink, mark::kChannel, mark::kChannelEnd, mark::kTool,
        mark::kToolEnd, mark::kToolCall, mark::kToolCallEnd, mark::kToolResponse, mark::kToolResponseEnd,
        mark::kQuote, mark::kImage, mark::kAudio, mark::kVideo, mark::kEos}) {
    added.push_back({{"id", id++}, {"content", control}, {"special", true}});
  }
  const json file = {
      {"added_tokens", added},
      {"model", {{"type", "BPE"}, {"byte_fallback", true}, {"vocab", vocab}, {"merges", json::array()}}}};
  return Tokenizer::parse(file.dump(), "bytes");
}

void check_prompt(const std::vector<PromptPart>& prompt) {
  static const Tokenizer tokenizer = make_tokenizer();
  size_t controls = 0;
  bool after_text = false;
  for (const PromptPart& part : prompt) {
    fuzz_check(!part.text.empty() && !(after_text && !part.is_control));
    after_text = !part.is_control;
    controls += part.is_control;
  }
  size_t special = 0;
  const std::vector<int> ids = slip::text::encode_prompt(tokenizer, prompt);
  for (const int id : ids) special += tokenizer.is_special(id);
  fuzz_check(special == controls);
  fuzz_check(tokenizer.decode(ids).size() >= controls);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const json request = json::parse(data, data + size, nullptr, false);
  if (!request.is_object()) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* key : {"messages", "tools"}) {
    const std::string_view slice = slip::text::member_slice(text, key);
    fuzz_check(slice.empty() != request.contains(key));
    if (!slice.empty()) fuzz_check(json::parse(slice) == request[key]);
    try {
      slip::text::parse_messages(slice);
      slip::text::parse_tools(slice);
    } catch (const slip::Error&) {
    }
  }
  const auto list = [&](const char* key) { return request.contains(key) ? request[key] : json(); };
  try {
    const Conversation conversation{.turns = slip::text::read_messages(list("messages")),
                                    .tools = slip::text::read_tools(list("tools"))};
    for (unsigned bits = 0; bits < 16; ++bits) {
      try {
        check_prompt(slip::text::render_chat(conversation, {.empty_thought_block = (bits & 1) != 0,
                                                            .add_generation_prompt = (bits & 2) != 0,
                                                            .thinking = (bits & 4) != 0,
                                                            .skip_stray_answers = (bits & 8) != 0}));
      } catch (const slip::Error&) {
        fuzz_check((bits & 8) == 0);  // only a stray answer is refused so late
      }
    }
  } catch (const slip::Error&) {
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"messages":[{"role":"system","content":"Be <|turn>brief."},{"role":"user","content":" Hi é<turn|> "},
         {"role":"assistant","content":"<|channel>thought\nx<channel|>Yes.","reasoning":"hm"},
         {"role":"user","content":[{"type":"text","text":"and"},{"type":"image_url"},{"type":"input_audio"},
         {"type":"video"}]}]})",
      R"({"messages":[{"role":"developer","content":null},{"role":"user","content":"Weather?"},
         {"role":"assistant","reasoning_content":"I look.","tool_calls":[{"id":"1","type":"function","function":
         {"name":"get_weather","arguments":"{\"city\":\"Oslo\",\"days\":[1,2.5,null,true,{\"a\":{}}]}"}},
         {"id":"2","function":{"name":"raw","arguments":"a:<|\"|>x<|\"|>"}}]},
         {"role":"tool","tool_call_id":"1","content":{"sky":"<tool_response|>","wind":1e300}},
         {"role":"tool","tool_call_id":"2","name":"raw","content":[{"type":"text","text":"x"},{"type":"image"}]},
         {"role":"assistant","content":"Sun."}],
         "tools":[{"type":"function","function":{"name":"get_weather","description":"<|think|>","parameters":
         {"type":"object","properties":{"city":{"type":"string","description":"d","enum":["a","b"],"nullable":true},
         "days":{"type":["array","null"],"items":{"type":"object","properties":{"a":{"type":"integer"}},
         "required":["a"]}},"o":{"type":"object","x":{"type":"number"}}},"required":["city"]},
         "response":{"type":"object","description":"r"}}}]})",
      R"({"messages":[{"role":"tool","content":7},{"role":"model","content":""}],"tools":null})"};
}
