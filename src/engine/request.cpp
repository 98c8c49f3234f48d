#include "engine/request.h"

namespace slip::engine {

const char* name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone: return "none";
    case FinishReason::kStopId: return "stop id";
    case FinishReason::kStopString: return "stop string";
    case FinishReason::kMaxTokens: return "max tokens";
    case FinishReason::kContext: return "context";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kError: return "error";
  }
  return "unknown";
}

std::string Delta::text() const {
  std::string all;
  for (const text::ReplyEvent& event : events) {
    if (event.kind == text::ReplyEvent::Kind::kText) all += event.text;
  }
  return all;
}

}  // namespace slip::engine
