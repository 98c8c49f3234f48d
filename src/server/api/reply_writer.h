// ReplyWriter: one API's way to answer one request: as a stream of events or as one body. What it is told comes in
// order, from one thread at a time; it appends bytes and never waits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/api/error.h"
#include "server/api/record.h"

namespace slip::server::api {

class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;

  virtual bool streams() const = 0;
  /// Of the stream.
  virtual std::string_view content_type() const { return "text/event-stream; charset=utf-8"; }
  /// Before all else: what a stream says as soon as its request is accepted.
  virtual void begin(std::string&) {}
  /// More of reply `index`. False: nothing more is wanted of it.
  virtual bool add(size_t index, const engine::Delta& delta, std::string& out) = 0;
  /// An event that clients count, while there is nothing to say. Streams only.
  virtual void life_sign(std::string& out) = 0;
  /// All replies have ended: the end of the stream, or the body.
  virtual void finish(const RequestRecord& record, std::string& out) = 0;
  /// The end of a stream that failed after its headers.
  virtual void fail(const ApiError& error, const RequestRecord& record, std::string& out) = 0;
  /// Calls of tools so far.
  virtual int calls() const { return 0; }
};

}  // namespace slip::server::api
