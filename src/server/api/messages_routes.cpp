// The routes of Anthropic's API.
#include "server/api/messages_reply.h"
#include "server/api/messages_request.h"
#include "server/api/service_call.h"

namespace slip::server::api {

using nlohmann::json;

void Service::messages(Call& call) {
  const json body = parse_body(call.request.body);
  require_named(body);
  ChatRequest request = read_messages(body, reading());
  MessagesReplyOptions options{.stream = request.common.stream,
                               .thinking = request.options.thinking.value_or(false),
                               .stops = request.common.generation.stop_strings};
  ChatJob chat = chat_job(call, std::move(request), "msg_");
  options.prompt_tokens = chat.job.prompts.front().size();
  chat.job.writer = [&](ReplyFrame frame) {
    options.chat = std::move(chat.reply);
    options.chat.frame = std::move(frame);
    return messages_reply(std::move(options));
  };
  generate(call, std::move(chat.job));
}

void Service::count_message_tokens(Call& call) {
  const json body = parse_body(call.request.body);
  require_named(body);
  const ChatRequest chat = read_counted_messages(body, reading());
  std::vector<std::string> ignored;
  respond_json(*call.exchange, {{"input_tokens", prompt_of(call, chat, ignored).size()}});
}

}  // namespace slip::server::api
