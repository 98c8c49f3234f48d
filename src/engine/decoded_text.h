// The ReplyStream of text that is not told apart: text::StreamDecoder behind the engine's interface.
#pragma once

#include <memory>

#include "engine/request.h"
#include "text/detokenizer.h"

namespace slip::engine {

/// The tokenizer must outlive the stream.
std::unique_ptr<ReplyStream> decoded_text(const text::Tokenizer& tokenizer, text::DecodeOptions options = {});

}  // namespace slip::engine
