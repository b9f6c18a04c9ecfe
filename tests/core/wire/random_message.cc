#include "tests/core/wire/random_message.h"

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <limits>
#include <string>

namespace cpfeed::testing {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::Reflection;

constexpr int kMaxDepth = 4;

template <class T>
T RandomNumber(std::mt19937_64& random) {
  switch (random() % 4) {
    case 0:
      return static_cast<T>(random() % 100);
    case 1:
      return std::numeric_limits<T>::max();
    case 2:
      return std::numeric_limits<T>::lowest();
    default:
      return static_cast<T>(random());
  }
}

std::string RandomString(std::mt19937_64& random) {
  return std::string(random() % 20, static_cast<char>('a' + random() % 26));
}

void Fill(Message& message, int depth, std::mt19937_64& random);

// Either adds to a repeated field or sets a single one.
template <class Add, class Set>
void Put(bool repeated, Add add, Set set) {
  repeated ? add() : set();
}

#define CPFEED_PUT(Type, value)                              \
  Put(                                                       \
      field->is_repeated(),                                  \
      [&] { reflection.Add##Type(&message, field, value); }, \
      [&] { reflection.Set##Type(&message, field, value); })

void FillField(Message& message, const FieldDescriptor* field, int depth,
               std::mt19937_64& random) {
  const Reflection& reflection = *message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return CPFEED_PUT(Int32, RandomNumber<int32_t>(random));
    case FieldDescriptor::CPPTYPE_INT64:
      return CPFEED_PUT(Int64, RandomNumber<int64_t>(random));
    case FieldDescriptor::CPPTYPE_UINT32:
      return CPFEED_PUT(UInt32, RandomNumber<uint32_t>(random));
    case FieldDescriptor::CPPTYPE_UINT64:
      return CPFEED_PUT(UInt64, RandomNumber<uint64_t>(random));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return CPFEED_PUT(Double, RandomNumber<double>(random));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return CPFEED_PUT(Float, RandomNumber<float>(random));
    case FieldDescriptor::CPPTYPE_BOOL:
      return CPFEED_PUT(Bool, random() % 2 == 0);
    case FieldDescriptor::CPPTYPE_ENUM:
      return CPFEED_PUT(EnumValue, RandomNumber<int32_t>(random));
    case FieldDescriptor::CPPTYPE_STRING:
      return CPFEED_PUT(String, RandomString(random));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (depth == kMaxDepth) return;
      return Put(
          field->is_repeated(),
          [&] {
            Fill(*reflection.AddMessage(&message, field), depth + 1, random);
          },
          [&] {
            Fill(*reflection.MutableMessage(&message, field), depth + 1,
                 random);
          });
  }
}

#undef CPFEED_PUT

void Fill(Message& message, int depth, std::mt19937_64& random) {
  const auto* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    if (field->name() == "payload" || field->is_map()) continue;
    const int count =
        static_cast<int>(random() % (field->is_repeated() ? 4 : 2));
    for (int j = 0; j < count; ++j) FillField(message, field, depth, random);
  }
}

}  // namespace

void FillAtRandom(Message& message, std::mt19937_64& random) {
  Fill(message, 0, random);
}

}  // namespace cpfeed::testing
