// A conversation: who said what, which tools there are, which of them were called and what they answered. The
// JSON it is read from is that of OpenAI's chat requests, with Gemma's own parts ("image", "audio", "video")
// and a mapping as a tool's answer besides. Reading checks the shape once, so rendering need not.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace slip::text {

enum class Role { kSystem, kDeveloper, kUser, kAssistant, kTool };

/// From the names used in requests: system, developer, user, assistant, model, tool; others throw
/// Error(kUsage).
Role role_of(std::string_view name);

struct ContentPart {
  enum class Kind { kText, kImage, kAudio, kVideo };
  Kind kind = Kind::kText;
  std::string text = {};
  int media = 0;  // of another kind: which of those that came with the conversation, for whoever keeps them
};

struct ToolCall {
  std::string id = {};
  std::string name = {};
  /// An object; or a string with what stands between the braces of Gemma's call syntax.
  nlohmann::json arguments = nlohmann::json::object();
};

/// An answer that stands in the assistant's own message, as Google's examples write it.
struct ToolAnswer {
  std::string name = {};
  nlohmann::json result = {};
};

struct Turn {
  Role role = Role::kUser;
  std::string text = {};
  /// Instead of `text`, when the content is a list.
  std::vector<ContentPart> parts = {};
  /// Of an assistant: its thoughts, and the tools it called after them.
  std::string reasoning = {};
  std::vector<ToolCall> calls = {};
  /// Of a tool: the id of the call it answers, or its name where there are no ids; its answer where that is
  /// no text.
  std::string call_id = {};
  std::string name = {};
  nlohmann::json result = {};
  /// Where there are any, messages of tools behind this turn are not looked at.
  std::vector<ToolAnswer> answers = {};
  /// The message as it was sent, JSON text, which a template sees instead of the fields above; empty when nobody
  /// sent one.
  std::string source = {};
};

struct Tool {
  std::string name;
  std::string description = {};
  nlohmann::json parameters = {};  // JSON schema of an object, or null
  nlohmann::json response = {};    // schema of the answer, or null
  std::string source = {};         // as in Turn
};

struct Conversation {
  std::vector<Turn> turns;
  std::vector<Tool> tools = {};
};

/// A value nested deeper than this is refused: no tool needs it, and rendering walks it recursively.
inline constexpr int kDeepestValue = 64;

/// The lists `messages` and `tools` of a request; null is an empty list. What does not fit throws
/// Error(kUsage) with the place in it ("messages[2]: ...").
std::vector<Turn> read_messages(const nlohmann::json& messages);
std::vector<Tool> read_tools(const nlohmann::json& tools);
/// The same from JSON text, "" being an empty list. A template sees the order of keys and numbers as they stand there;
/// from parsed JSON it sees keys sorted.
std::vector<Turn> parse_messages(std::string_view messages);
std::vector<Tool> parse_tools(std::string_view tools);

/// Throws Error(kUsage) when a tool's answer follows no call, or names one that was not made.
void check_tool_answers(std::span<const Turn> turns);

}  // namespace slip::text
