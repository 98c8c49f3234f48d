// TurnList: a conversation's turns, put together from the pieces in which APIs send them: blocks of a message
// (Messages), items of an input (Responses), messages whose calls have no ids (ollama).
//
// Templates want an order that clients do not keep: a tool's results stand right behind its call. So a system message
// between the two waits until the results are there, and a reminder beside a result becomes part of it: as a user's
// turn it would throw away the thoughts that led to the call. Adjacent pieces of an assistant are one turn.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/conversation.h"

namespace slip::server::api {

/// What is said in a turn or a result: words, and pictures where they stand among them.
class Content {
 public:
  Content() = default;
  Content(std::string words) : words_(std::move(words)) {}  // NOLINT: words are a content

  /// `between` stands before the words where others stand in front of them.
  void add(std::string_view words, std::string_view between = "\n");
  void add(text::ContentPart picture);
  bool empty() const { return words_.empty() && parts_.empty(); }
  void move_into(text::Turn& turn) &&;

 private:
  std::string words_;                     // behind the last picture
  std::vector<text::ContentPart> parts_;  // up to the last picture
};

class TurnList {
 public:
  /// A whole turn of a system, a developer or a user.
  void say(text::Role role, Content content);

  // Pieces of an assistant's turn. Empty words are no piece.
  void think(std::string_view words);
  void answer(std::string_view words);
  /// A call without an id gets one.
  void call(text::ToolCall call);

  /// A tool's result; throws ApiError 400 that names `where` when the last assistant made no such call.
  void result(const std::string& call_id, Content content, const std::string& where);
  /// Of a call without an id: the first one of that name that has no result yet; any name where it is empty.
  void result_of(const std::string& name, Content content, const std::string& where);
  /// Behind the last result, as part of it.
  void remind(std::string_view words);

  /// The last turn is an assistant's text that may be continued.
  bool ends_with_answer() const;
  /// Calls of the last turn wait for their results.
  bool waits() const { return !waiting_.empty(); }
  bool empty() const { return turns_.empty() && held_.empty(); }

  std::vector<text::Turn> take();

 private:
  text::Turn& assistant();
  void add_result(const std::string& call_id, Content content);
  void release();

  std::vector<text::Turn> turns_;
  std::vector<text::Turn> held_;      // system turns that wait for results
  std::vector<std::string> waiting_;  // ids of calls without a result
  size_t caller_ = 0;                 // index of the turn whose calls they are, plus 1
  int unnamed_ = 0;                   // calls that came without an id
};

}  // namespace slip::server::api
