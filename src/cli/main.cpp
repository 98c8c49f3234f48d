#include <cstdio>

int main() {
  std::puts("slipstream");
  return 0;
}
