#include "types.h"

#include <string>

#include "base/config.h"
#include "base/dtype.h"
#include "core/op.h"

namespace py = pybind11;

namespace hora::python {

void bind_types(py::module_& module) {
  const auto numbered = [](const auto& names, auto name_of) {
    py::dict numbers;
    int number = 0;
    for (const auto& row : names) numbers[py::str(std::string(name_of(row)))] = number++;
    return numbers;
  };
  const auto same = [](std::string_view name) { return name; };
  module.attr("OPS") = numbered(kOpNames, same);
  module.attr("REDUCE_OPS") = numbered(kReduceOpNames, same);
  module.attr("DTYPES") = numbered(kDTypes, [](const DTypeInfo& row) { return row.name; });

  py::list settings;
  for (const SettingInfo& row : setting_table()) {
    settings.append(py::make_tuple(std::string(row.name), std::string(row.fallback), std::string(row.range),
                                   std::string(row.meaning)));
  }
  module.attr("SETTINGS") = settings;
}

}  // namespace hora::python
