// A small fuzzing loop for compilers without libFuzzer, and for the few seconds that a test run can spare:
// takes a seed, damages it in one to eight places, runs the target. The sequence of inputs depends on the
// number seed only, and so does how far it gets: it counts inputs, not seconds.
//
//   NAME_fuzz [INPUTS [SEED]]    so many inputs (200,000, seed 1); a crash leaves its input in fuzz-crash.bin
//   NAME_fuzz FILE               runs one input
//   NAME_fuzz --seeds FOLDER     writes the seeds there, as a corpus for libFuzzer
//
// SLIP_TEST_ROUNDS=20 in the environment makes it 20 times as many.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/noise.h"
#include "fuzz/target.h"
#include "support/rounds.h"

namespace {

std::string current;  // global, so that the signal handler can save it

void keep_input(int signal) {
  const int file = ::open("fuzz-crash.bin", O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (file >= 0 && ::write(file, current.data(), current.size()) < 0) ::_exit(3);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class Mutator {
 public:
  Mutator(uint64_t seed, std::vector<std::string> seeds)
      : key_(slip::noise_key(seed, 0)), seeds_(std::move(seeds)) {}

  std::string next() {
    std::string input = pick(seeds_);
    for (size_t changes = 1 + below(8); changes > 0; --changes) change(input);
    return input;
  }

 private:
  size_t below(size_t limit) { return static_cast<size_t>(slip::keyed_bits(key_, count_++) % limit); }
  const std::string& pick(const std::vector<std::string>& from) { return from[below(from.size())]; }

  void change(std::string& input) {
    // Pieces of JSON and numbers on the borders of what fits somewhere.
    static const std::vector<std::string> kPieces{"{",
                                                  "}",
                                                  "[",
                                                  "]",
                                                  ",",
                                                  ":",
                                                  "\"",
                                                  "null",
                                                  "true",
                                                  "false",
                                                  "0",
                                                  "-1",
                                                  "1",
                                                  "1e999",
                                                  "0.5",
                                                  "2147483648",
                                                  "4294967296",
                                                  "9223372036854775807",
                                                  "18446744073709551615",
                                                  "\\u0000",
                                                  "\xff",
                                                  "{\"a\":",
                                                  "[[[[[[[[",
                                                  "\"dtype\":\"BF16\"",
                                                  "99999999999999999999999"};
    const size_t at = below(input.size() + 1);
    const size_t length = std::min(input.size() - at, 1 + below(16));
    switch (below(7)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 1: input.erase(at, length); break;
      case 2: input.insert(at, pick(kPieces)); break;
      case 3: input.replace(at, length, pick(kPieces)); break;
      case 4: input.insert(at, input.substr(below(input.size() + 1), 1 + below(64))); break;
      case 5: replace_number(input, at); break;
      case 6: {
        const std::string& other = pick(seeds_);
        input = input.substr(0, at) + other.substr(below(other.size() + 1));
        break;
      }
    }
  }

  /// The next run of digits becomes another number: most of a header is numbers.
  void replace_number(std::string& input, size_t from) {
    static const std::vector<std::string> kNumbers{"0",  "1",   "2",     "3",       "8",
                                                   "-1", "255", "65536", "1048577", "1.5"};
    const size_t start = input.find_first_of("0123456789", from);
    if (start == std::string::npos) return;
    const size_t end = std::min(input.find_first_not_of("0123456789", start), input.size());
    input.replace(start, end - start, pick(kNumbers));
  }

  uint64_t key_;
  uint64_t count_ = 0;
  std::vector<std::string> seeds_;
};

void run(std::string input) {
  current = std::move(input);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(current.data()), current.size());
}

void write_seeds(const std::string& folder) {
  int count = 0;
  for (const std::string& seed : fuzz_seeds())
    std::ofstream(folder + "/seed" + std::to_string(count++), std::ios::binary) << seed;
}

}  // namespace

int main(int argc, char** argv) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGILL, SIGTRAP, SIGFPE, SIGBUS})
    std::signal(signal, keep_input);
  if (argc > 2 && std::string_view(argv[1]) == "--seeds") {
    write_seeds(argv[2]);
    return 0;
  }
  char* end = nullptr;
  const long inputs = argc > 1 ? std::strtol(argv[1], &end, 10) : 200000;
  if (end != nullptr && *end != '\0') {
    std::ifstream file(argv[1], std::ios::binary);
    run(std::string(std::istreambuf_iterator<char>(file), {}));
    return 0;
  }
  for (const std::string& seed : fuzz_seeds()) run(seed);
  Mutator mutator(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1, fuzz_seeds());
  const long count = slip::test::rounds(static_cast<int>(inputs));
  for (long i = 0; i < count; ++i) run(mutator.next());
  std::printf("%ld inputs, nothing but slip::Error came out\n", count);
}
