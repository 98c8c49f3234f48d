#include "server/api/turn_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/api/error.h"

namespace slip::server::api {

using text::Role;

namespace {

/// The words at the end of the parts.
std::string& words_behind(std::vector<text::ContentPart>& parts) {
  if (parts.back().kind != text::ContentPart::Kind::kText) parts.emplace_back();
  return parts.back().text;
}

}  // namespace

void Content::add(std::string_view words, std::string_view between) {
  if (!words_.empty() && !words.empty()) words_ += between;
  words_ += words;
}

void Content::add(text::ContentPart picture) {
  if (!words_.empty()) parts_.push_back({.text = std::exchange(words_, {})});
  parts_.push_back(std::move(picture));
}

void Content::move_into(text::Turn& turn) && {
  if (parts_.empty()) {
    turn.text = std::move(words_);
    return;
  }
  if (!words_.empty()) parts_.push_back({.text = std::move(words_)});
  turn.parts = std::move(parts_);
}

void TurnList::say(Role role, Content content) {
  text::Turn turn{.role = role};
  std::move(content).move_into(turn);
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

void TurnList::result(const std::string& call_id, Content content, const std::string& where) {
  bool made = false;
  if (caller_ > 0) {
    const auto& calls = turns_[caller_ - 1].calls;
    made = std::any_of(calls.begin(), calls.end(),
                       [&](const text::ToolCall& call) { return call.id == call_id; });
  }
  if (!made)
    fail_field(where, "there is no call '{}' in the assistant's turn before it", call_id.substr(0, 80));
  add_result(call_id, std::move(content));
}

void TurnList::result_of(const std::string& name, Content content, const std::string& where) {
  if (caller_ > 0) {
    for (const text::ToolCall& call : turns_[caller_ - 1].calls) {
      if (!name.empty() && call.name != name) continue;
      if (std::find(waiting_.begin(), waiting_.end(), call.id) == waiting_.end()) continue;
      return add_result(std::string(call.id), std::move(content));
    }
  }
  fail_field(where, "there is no call{}{} before it that waits for a result", name.empty() ? "" : " of ",
             name.substr(0, 80));
}

void TurnList::add_result(const std::string& call_id, Content content) {
  std::erase(waiting_, call_id);
  turns_.push_back({.role = Role::kTool, .call_id = call_id});
  std::move(content).move_into(turns_.back());
  if (waiting_.empty()) {
    for (text::Turn& turn : held_) turns_.push_back(std::move(turn));
    held_.clear();
  }
}

void TurnList::remind(std::string_view words) {
  const auto last = std::find_if(turns_.rbegin(), turns_.rend(),
                                 [](const text::Turn& turn) { return turn.role == Role::kTool; });
  if (last == turns_.rend()) return say(Role::kUser, std::string(words));
  std::string& text = last->parts.empty() ? last->text : words_behind(last->parts);
  if (!text.empty()) text += "\n\n";
  text += words;
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
