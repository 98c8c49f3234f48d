#include "server/api/turn_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/api/error.h"

namespace slip::server::api {

using text::Role;

void TurnList::say(Role role, std::string words) {
  text::Turn turn{.role = role, .text = std::move(words)};
  if (role != Role::kUser && !waiting_.empty()) {
    held_.push_back(std::move(turn));
    return;
  }
  release();
  turns_.push_back(std::move(turn));
}

void TurnList::think(std::string_view words) {
  if (words.empty()) return;
  std::string& thoughts = assistant().reasoning;
  if (!thoughts.empty()) thoughts += '\n';
  thoughts += words;
}

void TurnList::answer(std::string_view words) {
  if (!words.empty()) assistant().text += words;
}

void TurnList::call(text::ToolCall call) {
  if (call.id.empty()) call.id = fmt::format("unnamed_{}", unnamed_++);
  text::Turn& turn = assistant();
  caller_ = turns_.size();
  waiting_.push_back(call.id);
  turn.calls.push_back(std::move(call));
}

void TurnList::result(const std::string& call_id, std::string words, const std::string& where) {
  bool made = false;
  if (caller_ > 0) {
    const auto& calls = turns_[caller_ - 1].calls;
    made = std::any_of(calls.begin(), calls.end(),
                       [&](const text::ToolCall& call) { return call.id == call_id; });
  }
  if (!made)
    fail_field(where, "there is no call '{}' in the assistant's turn before it", call_id.substr(0, 80));
  add_result(call_id, std::move(words));
}

void TurnList::result_of(const std::string& name, std::string words, const std::string& where) {
  if (caller_ > 0) {
    for (const text::ToolCall& call : turns_[caller_ - 1].calls) {
      if (!name.empty() && call.name != name) continue;
      if (std::find(waiting_.begin(), waiting_.end(), call.id) == waiting_.end()) continue;
      return add_result(std::string(call.id), std::move(words));
    }
  }
  fail_field(where, "there is no call{}{} before it that waits for a result", name.empty() ? "" : " of ",
             name.substr(0, 80));
}

void TurnList::add_result(const std::string& call_id, std::string words) {
  std::erase(waiting_, call_id);
  turns_.push_back({.role = Role::kTool, .text = std::move(words), .call_id = call_id});
  if (waiting_.empty()) {
    for (text::Turn& turn : held_) turns_.push_back(std::move(turn));
    held_.clear();
  }
}

void TurnList::remind(std::string_view words) {
  const auto last = std::find_if(turns_.rbegin(), turns_.rend(),
                                 [](const text::Turn& turn) { return turn.role == Role::kTool; });
  if (last == turns_.rend()) return say(Role::kUser, std::string(words));
  if (!last->text.empty()) last->text += "\n\n";
  last->text += words;
}

bool TurnList::ends_with_answer() const {
  if (turns_.empty() || !held_.empty()) return false;
  const text::Turn& last = turns_.back();
  return last.role == Role::kAssistant && last.calls.empty() && !last.text.empty();
}

std::vector<text::Turn> TurnList::take() {
  release();
  return std::move(turns_);
}

/// The assistant's turn that is being written.
text::Turn& TurnList::assistant() {
  if (turns_.empty() || turns_.back().role != Role::kAssistant || !held_.empty()) {
    release();
    turns_.push_back({.role = Role::kAssistant});
  }
  return turns_.back();
}

/// Calls without a result get none any more.
void TurnList::release() {
  waiting_.clear();
  caller_ = 0;
  for (text::Turn& turn : held_) turns_.push_back(std::move(turn));
  held_.clear();
}

}  // namespace slip::server::api
