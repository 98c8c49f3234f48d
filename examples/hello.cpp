// The smallest program: one question, the answer as it is written.
//   hello MODEL [QUESTION]
#include <slipstream/slipstream.h>
#include <iostream>

int main(int count, char** words) {
  if (count < 2) {
    std::cerr << "usage: hello MODEL [QUESTION]\n";
    return 1;
  }
  try {
    slip::Model model = slip::Model::open(words[1]).load();
    const std::string question = count > 2 ? words[2] : "Tell me a story about a fox and a lantern.";
    for (const slip::Event& event : model.generate(question, {.max_tokens = 200}))
      std::cout << event.text << std::flush;
    std::cout << "\n";
  } catch (const slip::Error& error) {
    std::cerr << "hello: " << error.what() << "\n";
    return error.exit_code();
  }
}
