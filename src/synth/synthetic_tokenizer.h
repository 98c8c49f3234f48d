// The tokenizer and the chat template of a made-up model, for a vocabulary of any size. With them a server, a
// conversation and a prefix cache can be measured at real size without a download. The same size gives the
// same bytes everywhere.
//
// Every id has a token: Gemma's control tokens (at Gemma's ids where the vocabulary reaches so far), the 256
// bytes, the space, the letters a to z, and then made-up words such as Mubaf: a capital, then vowels and
// consonants by turns. A word of two letters or more comes of one merge: the word without its last letter,
// and that letter.
//
// Ids and text are one to one. Every word starts with a capital and no other token continues one, so a text
// falls into words in one way. Words have no space around them, because chat templates trim what was said: a
// reply that comes back in a history gets the ids it had. Excepted are the ambiguous ids below, and five byte
// tokens in a row that spell <|"|> when the text is encoded with special tokens on.
//
// Gemma's 262,144 tokens make a file of 7.8 MB in 0.1 s, which loads in 0.2 s.
#pragma once

#include <string>
#include <vector>

namespace slip::synth {

/// A tokenizer.json of Gemma's kind. Throws Error(kUsage) when `vocab` has no room for control tokens, bytes
/// and letters (307).
std::string synthetic_tokenizer_json(int vocab);

/// The tokenizer_config.json beside it: which tokens begin and end a text and stand for media.
std::string synthetic_tokenizer_config();

/// The chat_template.jinja beside it: that of the model in the box. With `empty_thought` a prompt without
/// thinking gets an empty thought, as with 12B, 26B-A4B and 31B; without it there is none, as with E2B, E4B.
std::string synthetic_chat_template(bool empty_thought);

/// The ids that may come back as others, in rising order: letters, which may continue the word before them,
/// and bytes whose character has a token of its own or that are no character alone. All other ids that are no
/// control tokens come back in any order and number.
std::vector<int> synthetic_ambiguous_ids(int vocab);

}  // namespace slip::synth
