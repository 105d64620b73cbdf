// Compiles, once for all files, the part of {fmt} that is the same for every file. Debian packages {fmt} as a shared
// library and as headers. A program that runs anywhere cannot depend on the library, and without this file each source
// file would compile that part of the headers again.
#include <fmt/format-inl.h>

namespace fmt::detail {

template void buffer<char>::append(const char*, const char*);
template void vformat_to(buffer<char>&, string_view, basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);
template auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
template locale_ref::locale_ref(const std::locale&);
template auto locale_ref::get<std::locale>() const -> std::locale;

}  // namespace fmt::detail
