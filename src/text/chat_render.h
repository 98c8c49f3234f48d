// A conversation through a chat template: what the template sees, by the conventions of Google's templates
// and of Hugging Face, and what it makes of it. For checkpoints without a template there is chat.h.
//
// Before a template sees them, messages are put in order: arguments of calls are objects (a string of JSON is
// parsed, an empty one counts as {}), numbers stay 2 or 2.0, keys keep their order, OpenAI's names for parts
// (image_url, input_audio, video_url) become Google's. bos_token and eos_token count as the template's own
// text; everything else in the context is foreign (rendered.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/conversation.h"
#include "text/jinja/template.h"
#include "text/rendered.h"

namespace slip::text {

struct ChatRenderOptions {
  /// Ends with an open turn for the model to fill.
  bool add_generation_prompt = true;
  /// `enable_thinking`; left out when nothing is said, so that the template decides.
  std::optional<bool> thinking = std::nullopt;
  /// What strftime_now() reports.
  jinja::Moment now{};
  std::string bos = "<bos>";
  std::string eos = "<eos>";
  /// One JSON object with further names for the template (`chat_template_kwargs`), or nothing. It cannot take
  /// the place of the messages, the tools or the tokens.
  std::string_view more = {};
};

/// Throws Error(kUsage): what is wrong with the conversation, or what the template says about it.
Rendered render_chat(const jinja::Template& chat_template, const Conversation& conversation,
                     const ChatRenderOptions& options);

/// The same from the lists `messages` and `tools` of a request as JSON text; no tools may be "" or "null".
Rendered render_chat(const jinja::Template& chat_template, std::string_view messages, std::string_view tools,
                     const ChatRenderOptions& options);

}  // namespace slip::text
