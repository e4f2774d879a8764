#include "longspan/report/page.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "longspan/report/html.h"
#include "longspan/report/page_tables.h"

namespace longspan {
namespace page_test {

std::string read_text(const std::string& path) {
  std::ifstream in(std::string(LONGSPAN_SOURCE_DIR) + "/" + path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

nlohmann::json fixture() { return nlohmann::json::parse(read_text("apps/web/test/fixture.json")); }

CompareRecord fixture_record() { return compare_record_from("[page] fixture", fixture()); }

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string between(const std::string& text, std::string_view open, std::string_view close) {
  const std::size_t from = text.find(open) + open.size();
  return text.substr(from, text.find(close, from) - from);
}

constexpr std::string_view kRecordOpen = "<script type=\"application/json\" id=\"record\">";

TEST(PageTest, TemplateIsTheBuiltBundle) {
  EXPECT_EQ(page_template(), read_text("apps/web/dist/page.html"));
}

TEST(PageTest, EveryMarkIsFilled) {
  const std::string page = comparison_page(fixture_record());
  EXPECT_GT(count_of(page_template(), "<!--longspan:"), 10U);
  EXPECT_EQ(count_of(page, "<!--longspan:"), 0U);
}

TEST(PageTest, HoldsTheWholeRecord) {
  const std::string page = comparison_page(fixture_record());
  EXPECT_EQ(nlohmann::json::parse(between(page, kRecordOpen, "</script>")),
            to_json(fixture_record()));
}

TEST(PageTest, AsksTheNetworkForNothing) {
  const std::string page = comparison_page(fixture_record());
  for (const char* address : {" src=\"http", " href=\"http", "url(http", "@import", "url(//"}) {
    EXPECT_EQ(count_of(page, address), 0U) << address;
  }
}

TEST(PageTest, TextOfTheRecordIsTextOfThePage) {
  CompareRecord record = fixture_record();
  const std::string hostile = "</script><script>alert('1 & \"2\"')</script><!-- é";
  record.conclusion = hostile;
  record.machine.cpu = hostile;
  record.mechanisms[0].kind = hostile;
  record.points[0].status = PointStatus::kFailed;
  record.points[0].reason = hostile;
  record.left_out.push_back({hostile, 7, hostile});
  const std::string page = comparison_page(record);
  EXPECT_EQ(count_of(page, "alert('1"), count_of(page, "\\u003cscript>alert('1"));
  EXPECT_EQ(between(page, "<h1 id=\"conclusion\">", "</h1>"),
            "&lt;/script&gt;&lt;script&gt;alert(&#39;1 &amp; &quot;2&quot;&#39;)&lt;/script&gt;"
            "&lt;!-- é");
  EXPECT_EQ(nlohmann::json::parse(between(page, kRecordOpen, "</script>"))["conclusion"], hostile);
}

TEST(PageTest, AnEmptyRecordIsAPage) {
  const std::string page = comparison_page({});
  EXPECT_EQ(count_of(page, "<!--longspan:"), 0U);
  EXPECT_NE(page.find("0 attentions on this machine"), page.npos);
  EXPECT_NE(page.find("None."), page.npos);
}

TEST(PageTest, UnknownNumbersAreDashes) {
  CompareRecord record;
  record.lengths = {7};
  record.mechanisms.resize(1);
  record.mechanisms[0].name = "full";
  record.points.resize(1);
  record.points[0] = {
      .mechanism = "full", .length = 7, .status = PointStatus::kOk, .error = CompareError{}};
  EXPECT_NE(error_table(record).find("<td>–</td>"), std::string::npos);
  EXPECT_NE(time_table(record).find("<td></td>"), std::string::npos);
  EXPECT_EQ(complexity_table(record).find("<data"), std::string::npos);
}

TEST(PageTest, LengthsThatMissForOneReasonShareARow) {
  CompareRecord record;
  for (const std::uint64_t n : {512, 1024}) {
    record.points.push_back(
        {.mechanism = "full", .length = n, .status = PointStatus::kRefused, .reason = "why"});
  }
  record.left_out.push_back({"full", 2048, "why"});
  const std::string table = missing_table(record);
  EXPECT_NE(table.find("<th scope=\"row\">full</th><td>512, 1,024</td><td>refused</td>"),
            table.npos);
  EXPECT_NE(table.find("<td>2,048</td><td>left out</td>"), table.npos);
}

TEST(HtmlTest, Numbers) {
  EXPECT_EQ(seconds_text(0.0), "0 s");
  EXPECT_EQ(seconds_text(4.53e-4), "453 µs");
  EXPECT_EQ(seconds_text(0.01234), "12.3 ms");
  EXPECT_EQ(seconds_text(0.0009996), "1.00 ms");
  EXPECT_EQ(seconds_text(99.94), "99.9 s");
  EXPECT_EQ(seconds_text(99.96), "1 min 40 s");
  EXPECT_EQ(seconds_text(3e-12), "3.00e-12 s");
  EXPECT_EQ(ratio_text(0.0), "0");
  EXPECT_EQ(ratio_text(2.4e-7), "2.40e-07");
  EXPECT_EQ(ratio_text(0.1234), "0.123");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(-1234567), "-1,234,567");
  EXPECT_EQ(percent_text(0.0491), "4.9 %");
  EXPECT_EQ(bytes_text(1536.0), "1.5 KiB");
  EXPECT_EQ(number(0.1, &ratio_text), "<data value=\"0.1\">0.1</data>");
  EXPECT_EQ(number(std::nullopt, &ratio_text), "–");
}

}  // namespace page_test
}  // namespace longspan
