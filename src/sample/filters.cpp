#include "sample/filters.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace slip::sample {
namespace {

class Filter {
 public:
  Filter(Scan& scan, const Options& options, const Quantum& quantum, std::span<Candidate> space)
      : scan_(scan),
        options_(options),
        quantum_(quantum),
        space_(space),
        inverse_temperature_(1.0 / options.temperature),
        scale_(static_cast<float>(inverse_temperature_)),
        lowest_x_(std::log(static_cast<double>(options.min_p))) {}

  std::span<Candidate> run() {
    const bool top_k = options_.top_k > 0 && static_cast<size_t>(options_.top_k) < space_.size();
    const bool top_p = options_.top_p < 1;
    std::span<Candidate> kept;
    if (top_k) {
      kept = scan_.best(options_.top_k, space_);
      if (top_p) kept = nucleus(kept, options_.top_p * sum(kept));
    } else if (top_p) {
      kept = nucleus_of_all();
    } else {
      kept = gather(floor_at(lowest_x_));
    }
    return options_.min_p > 0 ? likely_enough(kept) : kept;
  }

 private:
  double weight(float value) const {
    return quantum_.round<double>(exp_nonpositive(broadcast((value - scan_.max()) * scale_))[0]);
  }
  double sum(std::span<const Candidate> of) const {
    double total = 0;
    for (const Candidate& candidate : of) total += weight(candidate.value);
    return total;
  }

  std::span<Candidate> likely_enough(std::span<Candidate> of) const {
    const auto end = std::partition(of.begin(), of.end(), [&](const Candidate& candidate) {
      return scaled(candidate.value, scan_.max(), inverse_temperature_) >= lowest_x_;
    });
    return of.first(static_cast<size_t>(end - of.begin()));
  }

  // A value no larger than any whose x is at least `x`: rounding errors of the way back are far below the
  // margin.
  float floor_at(double x) const {
    const double value = scan_.max() + x * options_.temperature;
    return static_cast<float>(value - 1e-5 * (1 + std::fabs(value)));
  }

  std::span<Candidate> gather(float floor) {
    size_t found = 0;
    scan_.visit_from(floor, [&](float value, int id) { space_[found++] = {value, id}; });
    return space_.first(found);
  }

  // All tokens lighter than (1 - p) / vocab of the total weigh less than 1 - p of it together, so the prefix
  // that holds p ends before them.
  std::span<Candidate> nucleus_of_all() {
    const double total = scan_.weight_sum(scale_, quantum_);
    const double target = options_.top_p * total;
    const double light = (1.0 - options_.top_p) * total / static_cast<double>(space_.size());
    std::span<Candidate> kept = gather(floor_at(std::log(light)));
    // Rounding to the quantum can move the sum across the target in rows made of dust.
    if (sum(kept) < target) kept = gather(-std::numeric_limits<float>::infinity());
    return nucleus(kept, target);
  }

  // The shortest sorted prefix that weighs at least `target`. Halves the part that holds its end until that
  // is short. Sums of weights are exact (weight.h), so the halving finds the very cut a full sort would.
  std::span<Candidate> nucleus(std::span<Candidate> of, double target) const {
    constexpr size_t kShort = 32;
    size_t begin = 0, end = of.size();
    double before = 0;
    while (end - begin > kShort) {
      const size_t middle = begin + (end - begin) / 2;
      const auto at = [&](size_t i) { return of.begin() + static_cast<std::ptrdiff_t>(i); };
      std::nth_element(at(begin), at(middle), at(end), better);
      const double upper = sum(of.subspan(begin, middle - begin));
      if (before + upper >= target) {
        end = middle;
      } else {
        before += upper;
        begin = middle;
      }
    }
    std::sort(of.begin() + static_cast<std::ptrdiff_t>(begin), of.begin() + static_cast<std::ptrdiff_t>(end),
              better);
    while (begin < end && before < target) before += weight(of[begin++].value);
    return of.first(std::max<size_t>(begin, 1));
  }

  Scan& scan_;
  const Options& options_;
  const Quantum& quantum_;
  std::span<Candidate> space_;
  const double inverse_temperature_;
  const float scale_;
  const double lowest_x_;  // -infinity without min_p
};

}  // namespace

std::span<Candidate> keep(Scan& scan, const Options& options, const Quantum& quantum,
                          std::span<Candidate> space) {
  return Filter(scan, options, quantum, space).run();
}

}  // namespace slip::sample
