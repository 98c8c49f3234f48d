// Global functions, and where all that has a name is found.
#include <array>
#include <ctime>
#include <unordered_map>

#include "text/jinja/builtin_help.h"

namespace slip::text::jinja {
namespace {

using Given = const Bound&;

constexpr int64_t kLongestRange = 100'000;  // that of jinja2's sandbox

Value global_range(Interpreter& run, const Value&, Given given) {
  const auto arguments = given.all->positional;
  if (arguments.empty() || !given.all->keywords.empty()) {
    type_error("range expected at least 1 argument, got {}", arguments.size());
  }
  if (arguments.size() > 3) type_error("range expected at most 3 arguments, got {}", arguments.size());
  auto* range = run.heap().make<Range>();
  for (const Value& argument : arguments) {
    need_integer(argument, 0);
    if (argument.origin() == Origin::kForeign) range->origin = Origin::kForeign;
  }
  range->start = arguments.size() > 1 ? arguments[0].integer() : 0;
  range->stop = arguments[arguments.size() > 1 ? 1 : 0].integer();
  range->step = arguments.size() > 2 ? arguments[2].integer() : 1;
  if (range->step == 0) raise(Fault::kValueError, "range() arg 3 must not be zero");
  const bool empty = range->step > 0 ? range->start >= range->stop : range->start <= range->stop;
  if (empty) return Value::pointing(Kind::kRange, range);
  const double distance = static_cast<double>(range->stop) - static_cast<double>(range->start);
  if (distance / static_cast<double>(range->step) > kLongestRange + 1.0) {
    raise(Fault::kOverflowError, "Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).",
          kLongestRange);
  }
  // The distance may not fit 64 bits; the step is then so large that its remainder does.
  const auto wide = static_cast<__int128>(range->stop) - range->start;
  const auto step = static_cast<__int128>(range->step);
  range->count = static_cast<int64_t>((wide + step - (step > 0 ? 1 : -1)) / step);
  if (range->count > kLongestRange) {
    raise(Fault::kOverflowError, "Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).",
          kLongestRange);
  }
  return Value::pointing(Kind::kRange, range);
}

/// dict(mapping or pairs, **more)
Dict* make_dict(Interpreter& run, Given given) {
  Heap& heap = run.heap();
  auto* dict = heap.make<Dict>();
  const auto arguments = given.all->positional;
  if (arguments.size() > 1) type_error("dict expected at most 1 argument, got {}", arguments.size());
  if (!arguments.empty() && arguments[0].is(Kind::kDict)) {
    dict = copy(heap, *arguments[0].dict());
  } else if (!arguments.empty()) {
    demand_defined(arguments[0]);
    for (const Value& item : to_items(heap, arguments[0])) {
      const auto pair = to_items(heap, item);
      if (pair.size() != 2) {
        raise(Fault::kValueError, "dictionary update sequence element has length {}; 2 is required",
              pair.size());
      }
      set(heap, *dict, pair[0], pair[1]);
    }
  }
  for (const Entry& keyword : given.all->keywords) set(heap, *dict, keyword.key, keyword.value);
  return dict;
}

Value global_dict(Interpreter& run, const Value&, Given given) {
  return Value::of(make_dict(run, given));
}
Value global_namespace(Interpreter& run, const Value&, Given given) {
  return Value::of(make_dict(run, given), Kind::kNamespace);
}

Value global_cycler(Interpreter& run, const Value&, Given given) {
  const auto items = given.all->positional;
  if (items.empty()) raise(Fault::kRuntimeError, "at least one item has to be provided");
  auto* cycler = run.heap().make<Cycler>();
  cycler->items = {run.heap().copy(items.data(), items.size()), items.size()};
  return Value::pointing(Kind::kCycler, cycler);
}

Value global_joiner(Interpreter& run, const Value&, Given given) {
  auto* joiner = run.heap().make<Joiner>();
  joiner->separator = given.has(0) ? given[0] : make_text_value(run.heap(), ", ");
  return Value::pointing(Kind::kJoiner, joiner);
}

Value global_raise(Interpreter& run, const Value&, Given given) {
  throw Failure{Fault::kTemplateError, std::string(soft_text(run, given[0]).view())};
}

Value global_strftime(Interpreter& run, const Value&, Given given) {
  std::string form(need_text(given[0]).view());
  // Fields of a time that has no zone and no fractions.
  for (const auto& [field, text] : {std::pair{"%f", "000000"}, std::pair{"%z", ""}, std::pair{"%Z", ""}}) {
    for (size_t at = 0; (at = form.find('%', at)) != std::string::npos;) {
      if (form.compare(at, 2, field) == 0) {
        form.replace(at, 2, text);
      } else {
        at += 2;
      }
    }
  }
  if (form.empty()) return Value::of(empty_text());
  if (form.size() > 1000) raise(Fault::kValueError, "a form of {} bytes is too long for a time", form.size());
  const std::time_t seconds = std::chrono::system_clock::to_time_t(run.now());
  std::tm fields{};
  gmtime_r(&seconds, &fields);
  // A letter in front tells an empty result from one that did not fit.
  form.insert(form.begin(), 'x');
  std::vector<char> text(form.size() * 32 + 64);
  const size_t size = std::strftime(text.data(), text.size(), form.c_str(), &fields);
  if (size == 0) raise(Fault::kValueError, "the form of a time asks for too much");
  return make_text_value(run.heap(), {text.data() + 1, size - 1}, Origin::kForeign);
}

Value global_lipsum(Interpreter&, const Value&, Given) {
  raise(Fault::kNotImplementedError, "lipsum() is not supported: a prompt must not depend on chance");
}

constexpr auto kGlobals = std::to_array<Builtin>({
    {"range", global_range, "*"},
    {"dict", global_dict, "*"},
    {"namespace", global_namespace, "*"},
    {"cycler", global_cycler, "*"},
    {"joiner", global_joiner, "sep"},
    {"lipsum", global_lipsum, "*"},
    {"raise_exception", global_raise, "message", 1},
    {"strftime_now", global_strftime, "format", 1},
});

using Index = std::unordered_map<std::string_view, const Builtin*>;

Index index_of(std::initializer_list<std::span<const Builtin>> tables) {
  Index index;
  for (const auto table : tables) {
    for (const Builtin& builtin : table) index.emplace(builtin.name, &builtin);
  }
  return index;
}

const Builtin* look_up(const Index& index, std::string_view name) {
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

}  // namespace

const Builtin* find_filter(std::string_view name) {
  static const Index index = index_of({text_filters(), html_filters(), number_filters(), list_filters(),
                                       selecting_filters(), sorting_filters()});
  return look_up(index, name);
}

const Builtin* find_test(std::string_view name) {
  static const Index index = index_of({all_tests()});
  return look_up(index, name);
}

const Builtin* find_global(std::string_view name) {
  for (const Builtin& builtin : kGlobals) {
    if (builtin.name == name) return &builtin;
  }
  return nullptr;
}

const Builtin* find_method(Kind kind, std::string_view name) {
  if (kind == Kind::kString) {
    static const Index index = index_of({string_methods(), string_searches(), string_classes()});
    return look_up(index, name);
  }
  for (const Builtin& builtin : other_methods(kind)) {
    if (builtin.name == name) return &builtin;
  }
  return nullptr;
}

}  // namespace slip::text::jinja
