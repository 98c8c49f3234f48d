// A conversation: every line of the input is a message, and all of it is sent again each time.
//   chat MODEL
#include <slipstream/slipstream.h>
#include <iostream>

int main(int count, char** words) {
  if (count != 2) {
    std::cerr << "usage: chat MODEL\n";
    return 1;
  }
  try {
    slip::Model model = slip::Model::open(words[1]).load();
    std::cerr << model.description() << "\n";
    std::vector<slip::Message> conversation = {{"system", "Answer in one sentence."}};
    for (std::string line; std::cerr << "> " && std::getline(std::cin, line);) {
      conversation.push_back({"user", line});
      slip::Stream stream = model.chat(conversation, {.max_tokens = 200});
      for (const slip::Event& event : stream) {
        if (event.kind == slip::Event::Kind::kText) std::cout << event.text << std::flush;
      }
      const slip::Reply& reply = stream.reply();
      std::cout << "\n";
      std::cerr << reply.statistics.output_tokens << " tokens in " << reply.statistics.passes << " passes\n";
      conversation.push_back({"assistant", reply.text});
    }
  } catch (const slip::Error& error) {
    std::cerr << "chat: " << error.what() << "\n";
    return error.exit_code();
  }
}
