// The extension report_drafts: of every token who guessed it, where its bytes went, and which guesses were wrong. It is
// the verifier's own record, so that a page can show what speculation does.
//
// What holds, added up over a reply: the bytes of a place are its text; the tokens of a source, and the rejected guesses,
// are what `timings` says.
#pragma once

#include "server/api/json_text.h"
#include "server/api/reply_shaper.h"

namespace slip::server::api {

/// Appends an entry for the delta's token, and one without an id for text that is no token's.
void append_drafts(Json& list, const engine::Delta& delta, const Shaped& shaped);

}  // namespace slip::server::api
