// The dictionaries that upstream's Python functions take and return, for the
// parity modes.

#ifndef CPFEED_CORE_THD_PARITY_DICT_H_
#define CPFEED_CORE_THD_PARITY_DICT_H_

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/tensor/tensor.h"

namespace cpfeed {

// A value that is no tensor. The functions pass it on and never look inside,
// so its JSON text is enough: "3", "\"thd\"", "[1, 2]", "null" for None.
struct PlainValue {
  std::string json;

  bool is_none() const { return json == "null"; }
};

using ParityValue = std::variant<PlainValue, Tensor>;

// Names and values in the order in which they were first set. A value type.
class ParityDict {
 public:
  // The value of `name`, or null where there is none.
  const ParityValue* Find(absl::string_view name) const;

  // The same where it is a tensor, else null.
  const Tensor* FindTensor(absl::string_view name) const;

  bool Has(absl::string_view name) const { return Find(name) != nullptr; }

  // Adds `name`, or gives it another value.
  void Set(absl::string_view name, ParityValue value);

  void Erase(absl::string_view name);

  const std::vector<std::pair<std::string, ParityValue>>& entries() const {
    return entries_;
  }

 private:
  std::vector<std::pair<std::string, ParityValue>> entries_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_THD_PARITY_DICT_H_
