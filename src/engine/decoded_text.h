// The TextStream of a tokenizer: text::StreamDecoder behind the engine's interface.
#pragma once

#include <memory>

#include "engine/request.h"
#include "text/detokenizer.h"

namespace slip::engine {

/// The tokenizer must outlive the stream.
std::unique_ptr<TextStream> decoded_text(const text::Tokenizer& tokenizer, text::DecodeOptions options = {});

}  // namespace slip::engine
