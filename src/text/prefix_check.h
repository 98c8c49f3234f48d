// Prefix stability: whether the prompt of a round begins with the prompt of the round before and the reply to it. A
// prefix cache keeps what both have in common, so each difference is computed again.
//
// Compared are token ids, as a cache sees them, where a tokenizer is given; bytes otherwise. A reply counts as the
// model writes it: in Gemma's syntax, its thought in front when thinking is on, arguments in the template's order.
// Cost: a rendering for each round.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_render.h"
#include "text/tokenizer.h"

namespace slip::text {

/// Where the prompt of the next round first differs from this round's prompt and reply.
struct PrefixBreak {
  size_t turn = 0;            // index of the assistant's turn that is the reply
  size_t at = 0;              // byte in the next prompt
  size_t lost = 0;            // bytes of this round's prompt and reply from there on
  size_t lost_tokens = 0;     // the same in tokens; 0 without a tokenizer
  bool in_chain = false;      // between a call of a tool and what the model does with the answer
  std::string expected = {};  // a few bytes of the prompt and reply from there on
  std::string found = {};     // and of the next prompt
};

/// Makes the prompt for the answer to a conversation.
using PromptMaker = std::function<Rendered(const Conversation&)>;

/// Every assistant's turn of the conversation in order, as the reply to what stands before it. A break in an
/// earlier turn that later rounds repeat is reported where it first shows.
std::vector<PrefixBreak> find_prefix_breaks(const PromptMaker& prompt_of, const Conversation& conversation,
                                            bool with_thoughts, const Tokenizer* tokenizer = nullptr);
std::vector<PrefixBreak> find_prefix_breaks(const jinja::Template& chat_template,
                                            const Conversation& conversation,
                                            const ChatRenderOptions& options,
                                            const Tokenizer* tokenizer = nullptr);

/// What the model writes for an assistant's turn, up to the token that ends its reply. `null`: how a null among the
/// arguments is spelled.
Rendered reply_of(const Turn& turn, bool with_thought, std::string_view null = "None");

/// For people: "after turn 3 the next prompt differs at byte 120 ...".
std::string describe(const PrefixBreak& found);

}  // namespace slip::text
