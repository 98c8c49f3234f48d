// A hub of its own process, for trying things by hand and for tests that start programs:
//   fake_hub FOLDER [PORT]
// serves FOLDER/org/name/... as repositories, prints its address, and runs until its input ends. Lines of its
// input are commands: "requests" prints each request so far, "forget" forgets them.
#include <csignal>
#include <filesystem>
#include <iostream>
#include <string>

#include "hub/fake_hub.h"

int main(int count, char** words) {
  namespace fs = std::filesystem;
  if (count < 2) {
    std::cerr << "usage: fake_hub FOLDER [PORT]\n";
    return 1;
  }
  std::signal(SIGPIPE, SIG_IGN);
  slip::test::FakeHub::Options options;
  if (count > 2) options.port = std::atoi(words[2]);
  slip::test::FakeHub hub(options);
  for (const auto& owner : fs::directory_iterator(words[1])) {
    if (!owner.is_directory()) continue;
    for (const auto& name : fs::directory_iterator(owner.path())) {
      const std::string repository = owner.path().filename().string() + "/" + name.path().filename().string();
      hub.add_folder(repository, name.path().string());
    }
  }
  std::cout << hub.url() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "requests") {
      for (const auto& request : hub.requests()) {
        std::cout << request.method << ' ' << request.target << ' ' << request.header("range") << ' '
                  << request.sent << '\n';
      }
      std::cout << "." << std::endl;
    } else if (line == "forget") {
      hub.forget_requests();
      std::cout << "." << std::endl;
    }
  }
}
