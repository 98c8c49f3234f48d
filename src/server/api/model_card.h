// ModelCard: what the server says about the model it serves: its names, its limits, what really runs. Fixed once the
// model is loaded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/json_text.h"
#include "session/model.h"

namespace slip::server::api {

class ModelCard {
 public:
  struct Options {
    std::vector<std::string> served_names = {};  // the first is the id, where there are any
    bool strict = false;                         // no aliases of other makers' models
  };
  /// Of a loaded model, which outlives this. `context`: most tokens of a sequence. `sees`: pictures are taken.
  ModelCard(const session::Model& model, int context, Options options, bool sees = false);

  /// Without a slash, as some clients cannot send one.
  const std::string& id() const { return id_; }
  int context() const { return context_; }
  int64_t created() const { return created_; }
  /// Of the weights: the same for the same files.
  const std::string& fingerprint() const { return fingerprint_; }
  /// Whether the request means this model. An empty name does.
  bool answers_to(std::string_view name) const;

  /// An entry of /v1/models.
  Json entry() const;
  /// The fixed part of /props.
  Json properties() const;

 private:
  Json inputs() const;

  const session::Model& model_;
  Options options_;
  std::string id_, fingerprint_;
  std::vector<std::string> names_;
  int context_;
  bool sees_;
  int64_t created_;
};

}  // namespace slip::server::api
