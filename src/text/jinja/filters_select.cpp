// map, select and their like: filters that apply another filter or a test to every item.
#include <array>

#include "text/jinja/builtin_help.h"

namespace slip::text::jinja {
namespace {

Value filter_map(Interpreter& run, const Value& self, const Bound& given) {
  if (!truthy(self)) return make_iterator(run.heap(), {});
  const Arguments& all = *given.all;
  const Builtin* filter = nullptr;
  Arguments rest;
  Value attribute;
  Value standard;
  if (all.positional.empty()) {
    for (const Entry& keyword : all.keywords) {
      const std::string_view name = keyword.key.view();
      if (name == "attribute") {
        attribute = keyword.value;
      } else if (name == "default") {
        standard = keyword.value;
      }
    }
    if (attribute.is_missing()) raise(Fault::kFilterArgumentError, "map requires a filter argument");
    if (all.keywords.size() > (standard.is_missing() ? 1u : 2u)) {
      raise(Fault::kFilterArgumentError, "Unexpected keyword argument");
    }
  } else {
    const std::string_view name = need_text(all.positional[0]).view();
    filter = find_filter(name);
    if (filter == nullptr) raise(Fault::kTemplateRuntimeError, "No filter named '{}'.", name);
    rest = {all.positional.subspan(1), all.keywords};
  }
  Growing<Value> results(run.heap());
  Walk walk(run.heap(), self);
  for (Value item; walk.next(item);) {
    run.heap().charge();
    results.push(filter != nullptr ? call(run, *filter, item, rest) : reach(run, item, attribute, standard));
  }
  return make_iterator(run.heap(), {results.data(), results.size()});
}

/// Keeps the items for which the test says `wanted`. With `by_attribute` the test sees what the first
/// argument reaches in the item.
Value choose(Interpreter& run, const Value& self, const Arguments& all, bool by_attribute, bool wanted) {
  if (!truthy(self)) return make_iterator(run.heap(), {});
  const size_t test_at = by_attribute ? 1 : 0;
  if (by_attribute && all.positional.empty()) {
    raise(Fault::kFilterArgumentError, "Missing parameter for attribute name");
  }
  const Builtin* test = nullptr;
  Arguments rest;
  if (all.positional.size() > test_at) {
    const std::string_view name = need_text(all.positional[test_at]).view();
    test = find_test(name);
    if (test == nullptr) raise(Fault::kTemplateRuntimeError, "No test named '{}'.", name);
    rest = {all.positional.subspan(test_at + 1), all.keywords};
  }
  Growing<Value> chosen(run.heap());
  Walk walk(run.heap(), self);
  for (Value item; walk.next(item);) {
    run.heap().charge();
    const Value seen = by_attribute ? reach(run, item, all.positional[0]) : item;
    const bool holds = truthy(test == nullptr ? seen : call(run, *test, seen, rest));
    if (holds == wanted) chosen.push(item);
  }
  return make_iterator(run.heap(), {chosen.data(), chosen.size()});
}

Value filter_select(Interpreter& run, const Value& self, const Bound& given) {
  return choose(run, self, *given.all, false, true);
}
Value filter_reject(Interpreter& run, const Value& self, const Bound& given) {
  return choose(run, self, *given.all, false, false);
}
Value filter_selectattr(Interpreter& run, const Value& self, const Bound& given) {
  return choose(run, self, *given.all, true, true);
}
Value filter_rejectattr(Interpreter& run, const Value& self, const Bound& given) {
  return choose(run, self, *given.all, true, false);
}

constexpr auto kFilters = std::to_array<Builtin>({
    {.name = "map", .function = filter_map, .parameters = "*", .is_lazy = true},
    {.name = "select", .function = filter_select, .parameters = "*", .is_lazy = true},
    {.name = "reject", .function = filter_reject, .parameters = "*", .is_lazy = true},
    {.name = "selectattr", .function = filter_selectattr, .parameters = "*", .is_lazy = true},
    {.name = "rejectattr", .function = filter_rejectattr, .parameters = "*", .is_lazy = true},
});

}  // namespace

std::span<const Builtin> selecting_filters() {
  return kFilters;
}

}  // namespace slip::text::jinja
