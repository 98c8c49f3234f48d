// The service around the replies: routes, names, who comes in, streams in time, clients that leave, the way down.
#include <filesystem>

#include "server/api_fixture.h"
#include "synth/writer.h"

namespace slip::server::api {
namespace {

constexpr const char* kChat = "/v1/chat/completions";
using std::chrono::seconds;

ServiceOptions with_queue(int queue) {
  ServiceOptions options;
  options.limits.queue = queue;
  return options;
}

TEST(Service, answers_every_path_with_what_it_has_or_an_error_object) {
  Server server;
  for (const char* path :
       {"/", "/health", "/ready", "/version", "/v1/models", "/props", "/slots", "/metrics"}) {
    EXPECT_EQ(server.send("GET", path)->status(), 200) << path;
    const auto head = server.send("HEAD", path);
    EXPECT_EQ(head->status(), 200) << path;
    EXPECT_EQ(head->text(), "") << path;
    const auto wrong = server.send("POST", path, "{}");
    EXPECT_EQ(wrong->status(), 405) << path;
    EXPECT_EQ(wrong->header("Allow"), "GET, HEAD");
    EXPECT_TRUE(wrong->body()["error"]["message"].is_string());
  }
  for (const char* path : {kChat, "/v1/completions", "/tokenize", "/detokenize", "/apply-template"}) {
    EXPECT_EQ(server.send("GET", path)->status(), 405) << path;
    EXPECT_EQ(server.send("GET", path)->header("Allow"), "POST");
  }
  for (const char* path :
       {"/v1/embeddings", "/v1/rerank", "/infill", "/v1/score", "/lora-adapters", "/v1/files",
        "/v1/audio/transcriptions", "/v1/files/x", "/api/generate", "/api/pull"}) {
    const auto missing = server.send("POST", path, "{}");
    EXPECT_EQ(missing->status(), 501) << path;
    EXPECT_TRUE(missing->body().contains("error")) << path;
  }
  for (const char* path :
       {"/nothing", "/v1", "//v1//chat/completions", "/v1/chat/completions/", "/v1/modelsx"}) {
    const auto unknown = server.send("POST", path, "{}");
    EXPECT_EQ(unknown->status(), 404) << path;
    EXPECT_TRUE(unknown->body()["error"]["message"].is_string()) << path;
  }
}

TEST(Service, errors_have_the_shape_of_the_api_that_was_spoken) {
  EXPECT_EQ(json::parse(error_body("/v1/messages", http::Refusal{401, "", "no"})),
            json::parse(R"({"type": "error", "error": {"type": "authentication_error", "message": "no"}})"));
  EXPECT_EQ(
      json::parse(error_body("/v1/messages/count_tokens", http::Refusal{529, "", "no"}))["error"]["type"],
      "overloaded_error");
  EXPECT_EQ(json::parse(error_body("/api/chat", http::Refusal{400, "", "no"})),
            json::parse(R"({"error": "no"})"));
  EXPECT_EQ(json::parse(error_body("/v1/models", http::Refusal{401, "invalid_api_key", "no"})),
            json::parse(R"({"error": {"message": "no", "type": "authentication_error", "param": null,
                            "code": "invalid_api_key"}})"));
}

TEST(Service, users_23_answers_to_its_names_and_to_those_of_other_makers_unless_strict) {
  ServiceOptions options;
  options.names.served_names = {"my-model", "second"};
  Server server(options);
  server.says("a");
  for (const char* name : {"", "my-model", "second", "claude-opus-4-8", "gpt-4o"}) {
    const auto got = server.ask(kChat, chat({{"model", name}}));
    EXPECT_EQ(got->status(), 200) << name;
    EXPECT_EQ(got->body()["model"], "my-model") << "the true id, whatever was asked for";
  }
  const auto unknown = server.ask(kChat, chat({{"model", "llama"}}));
  EXPECT_EQ(unknown->status(), 404);
  EXPECT_EQ(unknown->body()["error"]["code"], "model_not_found");
  EXPECT_NE(unknown->body()["error"]["message"].get<std::string>().find("my-model"), std::string::npos);

  const json list = server.send("GET", "/v1/models")->body();
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"][0]["id"], "my-model");
  EXPECT_EQ(list["data"][0]["max_model_len"], 512);
  EXPECT_EQ(server.send("GET", "/v1/models/claude-x")->body()["id"], "my-model");
  EXPECT_EQ(server.send("GET", "/v1/models/llama")->status(), 404);

  options.names.strict = true;
  Server strict(options);
  strict.says("a");
  EXPECT_EQ(strict.ask(kChat, chat({{"model", "claude-opus-4-8"}}))->status(), 404);
  EXPECT_EQ(strict.ask(kChat, chat({{"model", "my-model"}}))->status(), 200);
}

TEST(Service, users_9_refuses_past_the_queue_and_says_when_to_come_back) {
  Server small(with_queue(1));
  small.replies.load_now.sequences = 1;
  small.says("abc", {.tokens = {}, .pause_at = 1});
  const auto first = small.post(kChat, chat({{"stream", true}})), second = small.post(kChat, chat());
  const auto third = small.post(kChat, chat({{"max_tokens", 100}}));
  EXPECT_EQ(third->status(), 429);
  const int after = std::stoi(third->header("Retry-After"));
  EXPECT_GE(after, 1);
  EXPECT_LE(after, 120);
  EXPECT_EQ(third->body()["error"]["type"], "rate_limit_error");
  small.replies.go_on();
  first->wait();
  second->wait();
  small.settle();
  EXPECT_EQ(small.ask(kChat, chat())->status(), 200) << "a place that is free again is given";
  const auto many = small.post(kChat, chat({{"n", 3}}));
  EXPECT_EQ(many->status(), 400) << "what can never come in is told so, not to try again";
}

TEST(Service, retry_after_follows_the_measured_speed) {
  const engine::Load load{.prompt_rate = 100, .decode_rate = 50};
  EXPECT_EQ(retry_after(load, {.replies = 1, .prompt_tokens = 1000, .answer_tokens = 500}), 20);
  EXPECT_EQ(retry_after(load, {.replies = 4, .prompt_tokens = 1000, .answer_tokens = 500}), 5);
  EXPECT_EQ(retry_after(load, {.replies = 1, .prompt_tokens = 1e9}), 120);
  EXPECT_EQ(retry_after({}, {.replies = 1, .prompt_tokens = 1000}), 1) << "nothing was measured yet";
}

TEST(Service, at_least_64_requests_run_or_wait_before_the_first_refusal) {
  Server server;
  server.replies.load_now.sequences = 1;
  server.says("abc", {.tokens = {}, .pause_at = 1});
  std::vector<std::shared_ptr<FakeExchange>> all;
  for (int i = 0; i < 65; ++i) all.push_back(server.post(kChat, chat()));
  for (const auto& one : all) EXPECT_EQ(one->status(), 0) << one->text();
  EXPECT_EQ(server.post(kChat, chat())->status(), 429);
  server.replies.go_on();
  for (const auto& one : all) one->wait();
}

TEST(Service, a_deadline_that_cannot_be_met_is_refused_at_once_and_one_that_passes_ends_the_answer) {
  Server server;
  server.replies.load_now.prompt_rate = 1;  // the prompt of about ten tokens takes ten seconds
  server.says("abc", {.tokens = {}, .pause_at = 2});
  const auto late = server.post(kChat, chat({{"deadline", 1}}));
  EXPECT_EQ(late->status(), 503);
  EXPECT_EQ(late->body()["error"]["code"], "deadline_cannot_be_met");
  EXPECT_NE(late->header("Retry-After"), "");

  const auto whole = server.post(kChat, chat({{"deadline", 100}}));
  const auto stream = server.post(kChat, chat({{"deadline", 100}, {"stream", true}}));
  stream->wait_for("\"b\"");
  server.timers.advance(seconds(99));
  EXPECT_FALSE(whole->done());
  server.timers.advance(seconds(2));
  whole->wait();
  stream->wait();
  EXPECT_EQ(whole->status(), 504);
  const auto events = stream->events();
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(events[events.size() - 2]["error"]["code"], "deadline_exceeded");
  EXPECT_EQ(events[events.size() - 2]["usage"]["completion_tokens"], 2) << "usage is computed on errors too";
}

TEST(Service, users_10_a_prompt_of_330_seconds_gives_data_events_all_the_while) {
  Server server;
  server.says("abc", {.tokens = {}, .pause_at = 0});
  const auto stream = server.post(kChat, chat({{"stream", true}}));
  const auto signs = [&] {
    const std::string text = stream->text();
    size_t count = 0;
    for (size_t at = 0; (at = text.find("data: ", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  const auto until = [&](size_t count) {
    for (int i = 0; i < 60000 && signs() < count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return signs();
  };
  EXPECT_EQ(stream->status(), 0) << "what fails before the first event is an HTTP error";
  server.timers.advance(seconds(10));
  EXPECT_EQ(until(1), 1u) << "the first within 10 s";
  // The clock stands still until each sign is out, so that they are counted exactly.
  for (size_t i = 2; i <= 22; ++i) {
    server.timers.advance(seconds(15));
    ASSERT_EQ(until(i), i) << "then every 15 s";
  }
  server.replies.go_on();
  stream->wait();
  const auto events = stream->events();
  EXPECT_EQ(events[0]["choices"][0]["delta"]["role"], "assistant") << "also when it is a life sign";
  EXPECT_EQ(events[1]["choices"][0]["delta"], json::object());
  EXPECT_EQ(assembled(events)["choices"][0]["content"], "abc");
}

TEST(Service, a_reply_that_flows_needs_no_life_signs) {
  Server server;
  server.says("abc", {.tokens = {}, .pause_at = 1});
  const auto stream = server.post(kChat, chat({{"stream", true}}));
  stream->wait_for("\"a\"");
  server.timers.advance(seconds(10));
  server.replies.go_on();
  stream->wait();
  EXPECT_EQ(stream->text().find("\"delta\":{},\"logprobs\":null,\"finish_reason\":null"), std::string::npos);
}

TEST(Service, a_client_that_goes_away_is_cancelled_and_told_of_in_the_log) {
  Server server;
  server.says("abc", {.tokens = {}, .pause_at = 1});
  const auto stream = server.post(kChat, chat({{"stream", true}, {"n", 2}}));
  for (const char* index : {"0", "1"})
    stream->wait_for(std::string("\"index\":") + index +
                     ",\"delta\":{\"role\":\"assistant\",\"content\":\"a\"}");
  stream->leave();
  server.settle();
  EXPECT_EQ(server.replies.cancels, 2);
  ASSERT_FALSE(server.log().empty());
  EXPECT_NE(server.log().back().find(" 499 "), std::string::npos);
  EXPECT_NE(server.log().back().find(" out 2"), std::string::npos) << "usage is computed all the same";
  const auto whole = server.post(kChat, chat());
  whole->leave();
  server.settle();
  EXPECT_EQ(server.replies.cancels, 3);
  EXPECT_FALSE(whole->done());
}

TEST(Service, a_client_that_never_reads_is_cancelled_at_the_next_token) {
  Server server;
  server.says("abcdef", {.tokens = {}, .pause_at = 1});
  const auto stream = server.post(kChat, chat({{"stream", true}}));
  stream->wait_for("\"a\"");
  stream->clog();
  server.replies.go_on();
  server.settle();
  EXPECT_NE(server.log().back().find(" 499 "), std::string::npos);
}

TEST(Service, users_12_an_engine_that_fails_in_mid_stream_ends_it_with_an_error_event) {
  Server server;
  server.says("abc", {.tokens = {}, .fail_at = 2});
  const auto stream = server.ask(kChat, chat({{"stream", true}}));
  const auto events = stream->events();
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(events[events.size() - 2]["error"]["message"], "the device is gone");
  EXPECT_EQ(events[events.size() - 2]["usage"]["completion_tokens"], 2);
  const auto whole = server.ask(kChat, chat());
  EXPECT_EQ(whole->status(), 500);
  EXPECT_EQ(whole->body()["error"]["message"], "the device is gone");
  server.says("abc", {.tokens = {}, .fail_at = 0});
  const auto early = server.ask(kChat, chat({{"stream", true}}));
  EXPECT_EQ(early->status(), 500) << "before the first event it is an HTTP error";
  EXPECT_FALSE(early->streams());
}

TEST(Service, what_the_engine_refuses_is_a_400_and_leaves_no_place_taken) {
  Server server(with_queue(0));
  server.replies.load_now.sequences = 1;
  server.says("a");
  server.replies.refusal = "top_k must be 0 (keep all) or positive, not -5";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(server.ask(kChat, chat())->status(), 400);
  server.replies.refusal = "";
  EXPECT_EQ(server.ask(kChat, chat())->status(), 200);
}

TEST(Service, says_503_with_retry_after_while_it_loads) {
  Server server({}, /*open=*/false);
  for (const char* path : {"/health", "/ready", "/v1/models"}) {
    const auto got = server.send("GET", path);
    EXPECT_EQ(got->status(), 503) << path;
    EXPECT_NE(got->header("Retry-After"), "") << path;
  }
  const auto got = server.post(kChat, chat());
  EXPECT_EQ(got->status(), 503);
  EXPECT_NE(got->header("Retry-After"), "");
  EXPECT_EQ(server.send("GET", "/")->status(), 200);
  server.service->open(scripted_model(), server.replies);
  EXPECT_EQ(server.send("GET", "/health")->status(), 200);
}

TEST(Service, goes_down_in_steps) {
  Server server;
  server.says("abc", {.tokens = {}, .pause_at = 1});
  const auto running = server.post(kChat, chat({{"stream", true}}));
  running->wait_for("\"a\"");
  server.service->announce_end();
  EXPECT_EQ(server.send("GET", "/health")->status(), 503);
  EXPECT_EQ(server.send("GET", "/ready")->status(), 503);
  const auto late = server.post(kChat, chat());
  EXPECT_EQ(late->status(), 0) << "requests are still taken";
  server.service->refuse_new();
  const auto refused = server.post(kChat, chat());
  EXPECT_EQ(refused->status(), 503);
  EXPECT_NE(refused->header("Retry-After"), "");
  EXPECT_EQ(server.send("GET", "/metrics")->status(), 200);
  EXPECT_FALSE(server.service->drained(std::chrono::milliseconds(0)));
  server.service->stop();
  EXPECT_EQ(running->events()[running->events().size() - 2]["error"]["code"], "shutting_down");
  EXPECT_EQ(late->status(), 503);
  EXPECT_EQ(server.service->active(), 0u);
}

TEST(Service, slots_show_a_key_its_own_requests) {
  Server server;
  server.says("abc", {.tokens = {}, .pause_at = 1});
  const auto mine = server.post(kChat, chat(), "key-a"), other = server.post(kChat, chat(), "key-b");
  EXPECT_EQ(server.send("GET", "/slots", "", "key-a")->body().size(), 1u);
  EXPECT_EQ(server.send("GET", "/slots", "", "key-c")->body().size(), 0u);
  server.replies.go_on();
  mine->wait();
  other->wait();
}

TEST(Service, the_key_and_the_salt_of_a_request_keep_its_pages_apart) {
  Server server;
  server.says("a");
  const auto salt = [&](const std::string& key, const json& more) {
    server.post(kChat, chat(more), key)->wait();
    return server.replies.last_salt;
  };
  EXPECT_EQ(salt("", {}), kv::Salt());
  EXPECT_FALSE(salt("a", {}) == salt("b", {}));
  EXPECT_FALSE(salt("a", {}) == salt("", {}));
  EXPECT_FALSE(salt("a", {{"cache_salt", "x"}}) == salt("a", {}));
  EXPECT_TRUE(salt("a", {{"cache_salt", "x"}}) == salt("a", {{"cache_salt", "x"}}));
}

TEST(Service, draft_false_reaches_the_engine) {
  Server server;
  server.says("a");
  server.ask(kChat, chat({{"draft", false}}));
  EXPECT_FALSE(server.replies.last_draft);
}

TEST(Service, tells_of_every_request_in_one_line_without_its_text) {
  ServiceOptions options;
  options.json_log = true;
  Server server(options);
  server.says("zebra");
  server.ask(kChat, chat({{"messages", {{{"role", "user"}, {"content", "secret words"}}}}}));
  server.settle();
  server.ask(kChat, chat({{"temperature", -1}}));
  const auto log = server.log();
  ASSERT_EQ(log.size(), 2u);
  const json line = json::parse(log[0]);
  EXPECT_EQ(line["status"], 200);
  EXPECT_EQ(line["route"], kChat);
  EXPECT_EQ(line["out"], 5);
  for (const char* field :
       {"id", "tokens_in", "cached", "first_token_s", "tok_per_s", "drafter", "drafted", "accepted"})
    EXPECT_TRUE(line.contains(field)) << field;
  EXPECT_EQ(json::parse(log[1])["status"], 400);
  for (const std::string& text : log) {
    EXPECT_EQ(text.find("secret"), std::string::npos);
    EXPECT_EQ(text.find("zebra"), std::string::npos);
  }
}

TEST(Service, users_26_metrics_have_vllms_names_and_count) {
  Server server;
  server.says("abcde");
  server.ask(kChat, chat());
  server.ask(kChat, chat({{"n", 2}, {"stream", true}}));
  server.settle();
  const std::string text = server.send("GET", "/metrics")->text();
  for (const char* family : {"vllm:num_requests_running gauge",
                             "vllm:num_requests_waiting gauge",
                             "vllm:kv_cache_usage_perc gauge",
                             "vllm:gpu_cache_usage_perc gauge",
                             "vllm:cache_config_info gauge",
                             "vllm:num_requests_waiting_by_reason gauge",
                             "vllm:prompt_tokens_total counter",
                             "vllm:prompt_tokens_cached_total counter",
                             "vllm:generation_tokens_total counter",
                             "vllm:request_success_total counter",
                             "vllm:num_preemptions_total counter",
                             "vllm:prefix_cache_queries_total counter",
                             "vllm:prefix_cache_hits_total counter",
                             "vllm:gpu_prefix_cache_queries_total counter",
                             "vllm:gpu_prefix_cache_hits_total counter",
                             "vllm:spec_decode_num_drafts_total counter",
                             "vllm:spec_decode_num_draft_tokens_total counter",
                             "vllm:spec_decode_num_accepted_tokens_total counter",
                             "vllm:spec_decode_num_accepted_tokens_per_pos_total counter",
                             "vllm:tool_call_parser_invocations_total counter",
                             "vllm:time_to_first_token_seconds histogram",
                             "vllm:inter_token_latency_seconds histogram",
                             "vllm:request_time_per_output_token_seconds histogram",
                             "vllm:e2e_request_latency_seconds histogram",
                             "vllm:request_queue_time_seconds histogram",
                             "vllm:request_inference_time_seconds histogram",
                             "vllm:request_prefill_time_seconds histogram",
                             "vllm:request_decode_time_seconds histogram",
                             "vllm:request_prompt_tokens histogram",
                             "vllm:request_generation_tokens histogram",
                             "vllm:request_max_num_generation_tokens histogram",
                             "vllm:request_params_max_tokens histogram",
                             "vllm:request_params_n histogram",
                             "vllm:iteration_tokens_total histogram",
                             "vllm:request_prefill_kv_computed_tokens histogram",
                             "process_resident_memory_bytes gauge",
                             "slipstream_build_info gauge"}) {
    EXPECT_NE(text.find("# TYPE " + std::string(family)), std::string::npos) << family;
  }
  const auto value = [&](const std::string& series) {
    const size_t at = text.find("\n" + series);
    if (at == std::string::npos) return std::string("absent");
    const size_t space = text.find(' ', text.find('}', at));
    return text.substr(space + 1, text.find('\n', space) - space - 1);
  };
  const std::string labels = "{engine=\"0\",model_name=\"" +
                             server.send("GET", "/v1/models")->body()["data"][0]["id"].get<std::string>() +
                             "\"";
  EXPECT_EQ(value("vllm:generation_tokens_total" + labels), "15");
  EXPECT_EQ(value("vllm:request_success_total{engine=\"0\",finished_reason=\"stop\""), "3");
  EXPECT_EQ(value("vllm:kv_cache_usage_perc" + labels), "0.75");
  EXPECT_EQ(value("vllm:inter_token_latency_seconds_count" + labels), "15")
      << "of five tokens and the stop id";
  EXPECT_NE(text.find("block_size=\"256\""), std::string::npos);
  EXPECT_NE(text.find("num_gpu_blocks=\"0\""), std::string::npos);
}

TEST(Service, users_26_steps_are_counted_by_their_tokens) {
  Server server;
  server.replies.load_now.sizes.add(60);
  server.replies.load_now.sizes.add(1);
  const auto text = [&] { return server.send("GET", "/metrics")->text(); };
  const auto has = [&](const std::string& series, const std::string& value) {
    return text().find("\nvllm:iteration_tokens_total" + series + " " + value + "\n") != std::string::npos;
  };
  const std::string labels = "{engine=\"0\",model_name=\"" + server.service->model_id() + "\"";
  EXPECT_TRUE(has("_count" + labels + "}", "2")) << text();
  EXPECT_TRUE(has("_sum" + labels + "}", "61")) << "asked twice, counted once";
  EXPECT_TRUE(has("_bucket" + labels + ",le=\"32\"}", "1"));
  server.replies.load_now.sizes.add(10000);
  EXPECT_TRUE(has("_sum" + labels + "}", "10061"));
}

TEST(Service, refusals_of_the_http_layer_are_counted_and_told_of) {
  Server server;
  server.service->note_refused({.id = "req-9",
                                .method = "POST",
                                .path = "/secret",
                                .peer = "127.0.0.1:1",
                                .refusal = {401, "invalid_api_key", "no"}});
  EXPECT_NE(server.send("GET", "/metrics")
                ->text()
                .find("slipstream_http_requests_total{route=\"refused\",status=\"401\"} 1\n"),
            std::string::npos);
  ASSERT_EQ(server.log().size(), 1u);
  EXPECT_EQ(server.log()[0], "req-9 refused 401 error invalid_api_key");
}

TEST(Service, props_say_what_really_runs) {
  Server server;
  const json props = server.send("GET", "/props")->body();
  for (const char* field : {"model", "device", "weights", "drafting", "n_ctx", "limits", "accepted_inputs",
                            "default_generation_settings"})
    EXPECT_TRUE(props.contains(field)) << field;
  EXPECT_EQ(props["weights"]["fingerprint"].get<std::string>().size(), 32u);
  EXPECT_EQ(props["kv"]["bytes"], 1000);
  EXPECT_EQ(props["kv"]["longest_request"], 512);
}

TEST(Service, numbers_are_written_as_people_write_them) {
  for (const float value : {0.95f, 1.0f, 0.1f, -0.30000001f, 1e-7f, 3.4e38f, 0.0f})
    EXPECT_EQ(static_cast<float>(shortest(value)), value);
  EXPECT_EQ(to_text({{"top_p", shortest(0.95f)}, {"t", shortest(1.0f)}}), R"({"top_p":0.95,"t":1.0})");
}

TEST(Service, clients_learn_no_folders) {
  const test::TemporaryFolder folder;
  const synth::SynthOptions options{.shape = "tiny-e2b", .bits = 8};
  const std::string target = folder.path("m"),
                    drafter = folder.path("models--google--gemma-4-it-assistant/snapshots/0123abc");
  synth::write_folder(*synth::synthesize(options), target);
  std::filesystem::create_directories(drafter);
  synth::write_assistant(*synth::synthesize_assistant(options), drafter);
  const auto model = session::Model::open(target);
  model->open_drafters({.models = {drafter}});
  const ModelCard card(*model, 512, {});
  const std::string text = card.properties().dump() + card.entry().dump();
  EXPECT_EQ(text.find(folder.path("")), std::string::npos) << text;
  EXPECT_NE(card.properties()["drafting"].get<std::string>().find("mtp (google/gemma-4-it-assistant, "),
            std::string::npos)
      << card.properties()["drafting"];
}

TEST(Service, tokens_go_there_and_back) {
  Server server;
  const auto tokens = [&](const json& body) { return server.ask("/tokenize", body)->body()["tokens"]; };
  const int bos = *scripted_model().tokenizer().id_of("<bos>");
  const json plain = tokens({{"content", "ab c"}});
  EXPECT_EQ(plain.size(), 4u);
  EXPECT_EQ(tokens({{"prompt", "ab c"}})[0], bos) << "vLLM's spelling adds <bos>";
  EXPECT_EQ(tokens({{"prompt", "ab c"}, {"add_special_tokens", false}}), plain);
  EXPECT_EQ(tokens({{"content", "ab c"}, {"add_special", true}})[0], bos);
  EXPECT_EQ(tokens({{"content", "<|turn>"}}).size(), 1u) << "control tokens in raw text are control tokens";
  EXPECT_EQ(tokens({{"content", "<|turn>"}, {"parse_special", false}}).size(), 7u);
  EXPECT_EQ(server.ask("/detokenize", {{"tokens", plain}})->body()["content"], "ab c");
  EXPECT_EQ(server.ask("/detokenize", {{"tokens", {1000000}}})->status(), 400);
  EXPECT_EQ(server.ask("/tokenize", json::object())->status(), 400);
}

}  // namespace
}  // namespace slip::server::api
