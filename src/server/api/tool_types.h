// The arguments of a tool call, made to fit the types that the tool's schema asks for: a model writes 3 where a string
// is wanted, or "3" where a number is. Only what can be converted without loss is; the rest stays as it was written, so
// the tool sees what the model said.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace slip::server::api {

/// `arguments`: JSON of an object, as the reply parser gives it. `schema`: of the parameters, or null. Always returns
/// JSON of an object.
std::string typed_arguments(const std::string& arguments, const nlohmann::json& schema);

}  // namespace slip::server::api
