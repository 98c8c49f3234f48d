// Checks of a chat template by trying it out: what happens to control tokens that callers write, whether the
// next turn's prompt begins with this turn's prompt and reply (else a prefix cache loses the rest), whether
// calls of tools survive the way into the prompt and back, and what thinking changes. For
// `template check` and for tests; each check renders a few small conversations.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_render.h"

namespace slip::text {

struct CheckResult {
  enum class Verdict {
    kPass,
    kNote,  // works, and costs or surprises somebody
    kFail,
  };
  std::string check;  // "control tokens", "prefix", "tools", "thinking"
  Verdict verdict = Verdict::kPass;
  std::string finding;
};

/// All checks, over conversations of its own.
std::vector<CheckResult> check_template(const jinja::Template& chat_template,
                                        const ChatRenderOptions& options);

/// Where the prompt of the next round first differs from this round's prompt and reply.
struct PrefixBreak {
  size_t turn = 0;       // index of the assistant's turn that is the reply
  size_t at = 0;         // byte in the next prompt
  size_t lost = 0;       // bytes of this round's prompt and reply from there on
  std::string expected;  // a few bytes of the prompt and reply from there on
  std::string found;     // and of the next prompt
};

/// Every assistant's turn of the conversation in order, as the reply to what stands before it. A reply is
/// written as the model writes it: in Gemma's syntax, its thought in front when thinking is on. A break in an
/// earlier turn that later rounds repeat is reported where it first shows.
std::vector<PrefixBreak> find_prefix_breaks(const jinja::Template& chat_template,
                                            const Conversation& conversation,
                                            const ChatRenderOptions& options);

/// What the model writes for an assistant's turn, up to the token that ends its reply.
std::string reply_text(const Turn& turn, bool with_thought);

}  // namespace slip::text
