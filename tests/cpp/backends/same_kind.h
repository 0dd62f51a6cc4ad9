#pragma once

// Compares declarations of ours with those of a header that may not be present.

#include <type_traits>

namespace hora::testing {

template <class Ours, class Theirs>
struct SameKind;

/// Whether a caller that passes `Ours` passes what a function that takes `Theirs` expects: numbers and
/// enumerations of one size, functions of the same kind, pointers to the same kind. Handles and other opaque
/// types may have other names.
template <class Ours, class Theirs>
constexpr bool same_kind() {
  return SameKind<Ours, Theirs>::value;
}

template <class Type>
constexpr bool is_number = std::is_integral_v<Type> || std::is_enum_v<Type>;

template <class Ours, class Theirs>
constexpr bool same_number() {
  if constexpr (is_number<Ours> && is_number<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs) && std::is_enum_v<Ours> == std::is_enum_v<Theirs> &&
           (std::is_enum_v<Ours> || std::is_signed_v<Ours> == std::is_signed_v<Theirs>);
  } else {
    return std::is_void_v<Ours> == std::is_void_v<Theirs> &&
           std::is_class_v<Ours> == std::is_class_v<Theirs> && !is_number<Ours> && !is_number<Theirs>;
  }
}

template <class Ours, class Theirs>
struct SameKind : std::bool_constant<same_number<Ours, Theirs>()> {};

template <class Ours, class Theirs>
struct SameKind<Ours*, Theirs*>
    : std::bool_constant<std::is_const_v<Ours> == std::is_const_v<Theirs> &&
                         same_kind<std::remove_const_t<Ours>, std::remove_const_t<Theirs>>()> {};

template <class Ours, class... OurParameters, class Theirs, class... TheirParameters>
struct SameKind<Ours(OurParameters...), Theirs(TheirParameters...)>
    : std::bool_constant<same_kind<Ours, Theirs>()> {
  static_assert(sizeof...(OurParameters) == sizeof...(TheirParameters));
  static_assert((same_kind<OurParameters, TheirParameters>() && ...));
};

/// A member of a table of functions and the function of its symbol.
template <class Member, class Function>
constexpr bool is_declared_like = same_kind<Member, Function*>();

/// Whether the enumerations have the same size, and the two values are the same.
template <class Ours, class Theirs>
constexpr bool same_value(Ours ours, Theirs theirs) {
  return sizeof(Ours) == sizeof(Theirs) && static_cast<int>(ours) == static_cast<int>(theirs);
}

}  // namespace hora::testing
