// The route of OpenAI's Responses API.
#include "server/api/responses_reply.h"
#include "server/api/responses_request.h"
#include "server/api/service_call.h"

namespace slip::server::api {

using nlohmann::json;

void Service::responses(Call& call) {
  const json body = parse_body(call.request.body);
  require_named(body);
  ResponsesRequest request = read_responses(body, reading());
  ResponsesReplyOptions options{.stream = request.chat.common.stream,
                                .tools = std::move(request.tools),
                                .summary = request.summary,
                                .encrypted = request.encrypted,
                                .asked = std::move(request.asked)};
  ChatJob chat = chat_job(call, std::move(request.chat), "resp_");
  chat.job.field = "input";
  chat.job.writer = [&](ReplyFrame frame) {
    options.chat = std::move(chat.reply);
    options.chat.frame = std::move(frame);
    return responses_reply(std::move(options));
  };
  generate(call, std::move(chat.job));
}

}  // namespace slip::server::api
