// Checks of a chat template by trying it out: what happens to control tokens that callers write, whether the
// next turn's prompt begins with this turn's prompt and reply (else a prefix cache loses the rest), whether
// calls of tools survive the way into the prompt and back, and what thinking changes. For
// `template check` and for tests; each check renders a few small conversations.
#pragma once

#include <string>
#include <vector>

#include "text/chat_render.h"
#include "text/tokenizer.h"

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

/// All checks, over conversations of its own. With a tokenizer prefixes are compared in tokens.
std::vector<CheckResult> check_template(const jinja::Template& chat_template,
                                        const ChatRenderOptions& options,
                                        const Tokenizer* tokenizer = nullptr);

/// The prefixes of one conversation more, called `name` in the findings.
std::vector<CheckResult> check_prefixes(const jinja::Template& chat_template,
                                        const Conversation& conversation, const ChatRenderOptions& options,
                                        const std::string& name, const Tokenizer* tokenizer = nullptr);

}  // namespace slip::text
