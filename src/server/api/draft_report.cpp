#include "server/api/draft_report.h"

namespace slip::server::api {
namespace {

using text::Place;

const char* place_name(Place place) {
  switch (place) {
    case Place::kReasoning: return "reasoning";
    case Place::kText: return "content";
    case Place::kToolCall: return "call";
    case Place::kNone: break;
  }
  return "none";
}

Json entry(Json id, const char* source, const engine::Landing& landing) {
  Json json{{"id", std::move(id)},
            {"source", source},
            {"place", place_name(landing.place)},
            {"bytes", landing.bytes}};
  if (landing.place == Place::kToolCall) json["call"] = landing.call;
  return json;
}

}  // namespace

void append_drafts(Json& list, const engine::Delta& delta, const Shaped& shaped) {
  if (delta.token >= 0) {
    Json json = entry(delta.token, delta.drafted() ? delta.drafter : "model", shaped.landing);
    if (!delta.rejected.empty()) json["rejected"] = delta.rejected;
    list.push_back(std::move(json));
  } else if (shaped.landing.bytes > 0) {
    list.push_back(entry(nullptr, "server", shaped.landing));
  }
  if (shaped.copied > 0)
    list.push_back(
        entry(nullptr, "server", {.place = Place::kText, .bytes = static_cast<int>(shaped.copied)}));
}

}  // namespace slip::server::api
