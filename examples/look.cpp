// What is in a picture.
//   look MODEL PICTURE [QUESTION]
#include <slipstream/slipstream.h>
#include <iostream>

int main(int count, char** words) {
  if (count < 3) {
    std::cerr << "usage: look MODEL PICTURE [QUESTION]\n";
    return 1;
  }
  try {
    slip::Model model = slip::Model::open(words[1], {.media_worker = SLIPSTREAM_MEDIA_WORKER}).load();
    slip::Message message{.role = "user", .content = count > 3 ? words[3] : "What do you see?"};
    message.images.push_back({.file = words[2]});
    for (const slip::Event& event : model.chat({message}, {.max_tokens = 200}))
      std::cout << event.text << std::flush;
    std::cout << "\n";
  } catch (const slip::Error& error) {
    std::cerr << "look: " << error.what() << "\n";
    return error.exit_code();
  }
}
