// What the environment says about the hub, read once: the variables of Hugging Face's own client, with its
// order and its defaults, so that both find the same cache and the same token. An empty variable counts as
// unset; ~ and $NAME are expanded in paths.
//
// The token is for the hub alone: scrub() takes it out of any text that may be shown.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace slip::hub {

/// Value of a variable; "" = not set.
using Variables = std::function<std::string(const std::string& name)>;
std::string process_variable(const std::string& name);

struct Environment {
  std::string cache;  // the folder of all repositories; "" when not even HOME is known
  std::string endpoint = "https://huggingface.co";
  std::string token;  // "" = anonymous
  bool offline = false;
  bool use_links = true;
  std::chrono::seconds silence{10};           // of a download
  std::chrono::seconds metadata_silence{10};  // of anything else
  // Who else may see the token when the endpoint redirects there.
  std::vector<std::string> hub_origins = {"https://huggingface.co:443", "https://hf.co:443"};
};

/// Throws Error(kUsage) when a variable cannot be meant, such as an endpoint that is no URL.
Environment read_environment(const Variables& variables = process_variable);

/// The text with every occurrence of the token replaced.
std::string scrub(std::string text, const std::string& token);

}  // namespace slip::hub
