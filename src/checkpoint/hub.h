// Finding a model by what a person types: a folder, or the name of a model in the Hugging Face cache, with or
// without its organisation ("google/gemma-4-E2B-it", "gemma-4-E2B-it"). Nothing is downloaded. The cache
// keeps each model as models--org--name/snapshots/<revision>, and refs/main says which revision is current.
#pragma once

#include <string>
#include <vector>

namespace slip::checkpoint {

/// Where the cache may be, in the order in which Hugging Face's tools look: $HF_HUB_CACHE, else $HF_HOME/hub,
/// else
/// ~/.cache/huggingface/hub.
std::vector<std::string> hub_caches();

/// The folder of a model. Throws Error(kBadFile) that says where it looked and what is there that resembles
/// the name.
std::string resolve_model(const std::string& name, const std::vector<std::string>& caches = hub_caches());

/// The folder of the assistant that belongs to a model, which is given by its folder or its name. Looks
/// beside a folder (<folder>-assistant), in it (<folder>/assistant), and in the cache for the model's name
/// with "-assistant" after it, of the same organisation or Google's; a folder inside a cache knows its name
/// from its path. A converted model (name-4bit, name-mlx-8bit) also takes the assistant of the model it was
/// made from, and an assistant may be converted too (name-assistant-bf16). Empty when there is none; never
/// throws because of what it finds. Whether it fits is for open_assistant() to say.
std::string find_assistant(const std::string& model, const std::vector<std::string>& caches = hub_caches());

}  // namespace slip::checkpoint
