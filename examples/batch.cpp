// Many prompts at once: a thread for each, all on one model. They share every pass over the weights, and each
// gets the text it would get alone.
//   batch MODEL PROMPT...
#include <slipstream/slipstream.h>
#include <iostream>
#include <mutex>
#include <thread>

int main(int count, char** words) {
  if (count < 3) {
    std::cerr << "usage: batch MODEL PROMPT...\n";
    return 1;
  }
  try {
    slip::Model model = slip::Model::open(words[1]).load({.sequences = count - 2});
    std::mutex printing;
    std::vector<std::thread> threads;
    for (int i = 2; i < count; ++i) {
      threads.emplace_back([&, prompt = std::string(words[i])] {
        try {
          const slip::Reply reply =
              model.generate(prompt, {.max_tokens = 60, .seed = 1}, [](const slip::Event&) { return true; });
          const std::lock_guard lock(printing);
          std::cout << prompt << "\n  " << reply.text << "\n";
        } catch (const slip::Error& error) {
          const std::lock_guard lock(printing);
          std::cerr << prompt << "\n  " << error.what() << "\n";
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  } catch (const slip::Error& error) {
    std::cerr << "batch: " << error.what() << "\n";
    return error.exit_code();
  }
}
