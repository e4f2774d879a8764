#include "longspan/tasks/events/event_file.h"

#include <gtest/gtest.h>

#include "longspan/tasks/events/event_columns.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace event_file_test {

using testing::message_of;
using testing::TemporaryDirectory;
using testing::write_bytes;
using Sequences = std::vector<EventSequence>;

Sequences read(const std::string& name, const std::string& content,
               std::vector<double> edges = {}) {
  const TemporaryDirectory scratch;
  write_bytes(scratch / name, content);
  return read_events("events", scratch / name, edges);
}

void expect_same(const Sequences& got, const Sequences& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].times, want[i].times) << i;
    EXPECT_EQ(got[i].types, want[i].types) << i;
  }
}

TEST(EventFile, ShapesSayTheSame) {
  const Sequences want = {{{0.5, 1.25, 1.25}, {0, 1, 0}}, {{3.0}, {2}}};
  expect_same(read("a.jsonl",
                   "{\"t\":[0.5,1.25,1.25],\"m\":[0,1,0]}\n"
                   "{\"time_since_start\":[3],\"type_event\":[2]}\n"),
              want);
  const std::string first =
      "[{\"time_since_start\":0.5,\"time_since_last_event\":0.5,\"type_event\":0},"
      "{\"time_since_start\":1.25,\"type_event\":1},{\"time\":1.25,\"type\":0}]";
  const std::string second = "[{\"time_since_start\":3,\"type_event\":2}]";
  expect_same(read("a.json", "[" + first + ",\n" + second + "]"), want);
  expect_same(read("a.jsonl", first + "\n" + second + "\n"), want);
  expect_same(read("a.json", "[{\"times\":[0.5,1.25,1.25],\"types\":[0,1,0]},\n" + second + "]"),
              want);
  expect_same(read("a.csv", "user,time,type\nann,0.5,0\nbob, 3, 2\nann,1.25,1\nann,1.25,0\n"),
              want);
  expect_same(read("a.csv", "0.5,0\r\n1.25,1\r\n1.25,0\r\n"), {want[0]});
  expect_same(read("a.csv", "t\n1\n2\n"), {{{1.0, 2.0}, {0, 0}}});
}

TEST(EventFile, NumbersBecomeTypes) {
  const Sequences want = {{{1.0, 2.0, 3.0}, {0, 1, 2}}};
  expect_same(read("a.csv", "t_days,mag\n1,2.49\n2,2.5\n3,7.1\n", {2.5, 3.0}), want);
  expect_same(read("a.jsonl", "{\"t\":[1,2,3],\"m\":[-4,2.9,3]}\n", {2.5, 3.0}), want);
}

TEST(EventFile, BadLinesHaveASentence) {
  const TemporaryDirectory scratch;
  const auto path = scratch / "x.jsonl";
  const auto why = [&](const std::string& line) {
    write_bytes(path, "{\"t\":[1],\"m\":[0]}\n" + line + "\n");
    const std::string message = message_of([&] { read_events("events", path); });
    const std::string opening = "[events] " + path.string() + ":2: ";
    EXPECT_TRUE(message.starts_with(opening)) << message;
    return message.substr(std::min(message.size(), opening.size()));
  };
  EXPECT_EQ(why("1,2"), "not a JSON object; need {\"t\": […], \"m\": […]}");
  EXPECT_EQ(why("{\"t\":[1]}"), "no times and types; need \"t\" and \"m\"");
  EXPECT_EQ(why("{\"t\":[1,2],\"m\":[0]}"),
            "'t' and 'm'; need two lists of one length, of one event at least");
  EXPECT_EQ(why("{\"t\":[2,1],\"m\":[0,0]}"),
            "the time of event 1 is 1 after 2; need times that do not go backwards");
  EXPECT_EQ(why("{\"t\":[1,\"b\"],\"m\":[0,0]}"),
            "the time of event 1 is \"b\"; need a number from -1e+15 to 1e+15");
  EXPECT_EQ(why("{\"t\":[1,1e300],\"m\":[0,0]}"),
            "the time of event 1 is 1e+300; need a number from -1e+15 to 1e+15");
  EXPECT_EQ(
      why("{\"t\":[1,2],\"m\":[0,-1]}"),
      "the type of event 1 is -1; need a whole number from 0 to 4095, or --edges between numbers");
  EXPECT_EQ(
      why("{\"t\":[1,2],\"m\":[0,1.5]}"),
      "the type of event 1 is 1.5; need a whole number from 0 to 4095, or --edges between numbers");
  EXPECT_EQ(why("{\"t\":[1],\"m\":[0],\"t\":[2]}"), "the key 't' appears twice");
  EXPECT_EQ(why("[]"), "a list of no events; need one at least");
  EXPECT_EQ(why("[{\"time\":1,\"type\":0},{\"time\":2}]"),
            "event 1 has no time and type; need \"time_since_start\" and \"type_event\"");
}

TEST(EventFile, TitlesSayWhichColumnIsWhat) {
  const TemporaryDirectory scratch;
  const auto read = [&](const std::string& content) {
    write_bytes(scratch / "x.csv", content);
    return read_events("events", scratch / "x.csv");
  };
  const auto usual = read("user,time,type\na,1,0\nb,2,1\na,3,1\n");
  ASSERT_EQ(usual.size(), 2U);
  EXPECT_EQ(usual[0].times, (std::vector<double>{1.0, 3.0}));
  for (const char* other : {"Time,Type,User\n1,0,a\n2,1,b\n3,1,a\n",
                            "type_event,user,time_since_start\n0,a,1\n1,b,2\n1,a,3\n"}) {
    const auto same = read(other);
    ASSERT_EQ(same.size(), 2U) << other;
    EXPECT_EQ(same[0].times, usual[0].times) << other;
    EXPECT_EQ(same[0].types, usual[0].types) << other;
    EXPECT_EQ(same[1].types, usual[1].types) << other;
  }
  EXPECT_EQ(read("mark,t\n1,0.5\n0,0.75\n")[0].types, (std::vector<std::int32_t>{1, 0}));
}

TEST(EventFile, SequencesMayHaveOneType) {
  const Sequences want = {{{0.0, 1.0}, {0, 0}}, {{0.5}, {0}}};
  expect_same(read("a.csv", "sequence,time\n0,0\n1,0.5\n0,1\n"), want);
  expect_same(read("a.csv", "time,sequence\n0,0\n0.5,1\n1,0\n"), want);
  expect_same(read("a.csv", "\"id\",\"time\"\n\"x\",0\n\"y\",0.5\nx,1\n"), want);
}

TEST(EventFile, TitlesAreKnownAndOnce) {
  const TemporaryDirectory scratch;
  const auto why = [&](const std::string& titles) {
    write_bytes(scratch / "x.csv", titles + "\n1,0,0\n");
    const std::string message = message_of([&] { read_events("events", scratch / "x.csv"); });
    const std::string opening = "[events] " + (scratch / "x.csv").string() + ":1: ";
    const std::string end = "; need " + event_titles_text() + ", each once";
    EXPECT_TRUE(message.starts_with(opening) && message.ends_with(end)) << message;
    return message.substr(opening.size(), message.size() - opening.size() - end.size());
  };
  EXPECT_EQ(why("time,type,type"), "the titles 'type' and 'type' say the same");
  EXPECT_EQ(why("time,mark,Type"), "the titles 'mark' and 'Type' say the same");
  EXPECT_EQ(why("time,time"), "the titles 'time' and 'time' say the same");
  EXPECT_EQ(why("sequence,time,seq"), "the titles 'sequence' and 'seq' say the same");
  EXPECT_EQ(why("time,type,amount"), "unknown title 'amount'");
  EXPECT_EQ(why("time,foo"), "unknown title 'foo'");
  EXPECT_EQ(why("type"), "no title of times");
  EXPECT_EQ(why("type,sequence"), "no title of times");
}

TEST(EventFile, DocumentationHasTheTitles) {
  EXPECT_NE(
      testing::read_bytes(LONGSPAN_SOURCE_DIR "/docs/tasks/events.md").find(event_titles_text()),
      std::string::npos)
      << event_titles_text();
}

TEST(EventFile, BadTablesHaveASentence) {
  const TemporaryDirectory scratch;
  const auto path = scratch / "x.csv";
  const auto why = [&](const std::string& content) {
    write_bytes(path, content);
    const std::string message = message_of([&] { read_events("events", path); });
    const std::string opening = "[events] " + path.string();
    EXPECT_TRUE(message.starts_with(opening)) << message;
    return message.substr(std::min(message.size(), opening.size()));
  };
  EXPECT_EQ(why(""), " is empty; need at least one line");
  EXPECT_EQ(why("time,type\n"), " has a header alone; need events");
  EXPECT_EQ(why("O.5,0\n1,0\n"),
            ":1: the time of event 0 is 'O.5'; need a number from -1e+15 to 1e+15")
      << "no title stands beside a number";
  EXPECT_EQ(why("1,2,3,4\n"), ":1: 4 fields; need time,type or sequence,time,type");
  EXPECT_EQ(why("1,2\n3\n"), ":2: 1 fields; need time,type, as above");
  EXPECT_EQ(why("a,1,2\na,3\n"), ":2: 2 fields; need sequence,time,type, as above");
  EXPECT_EQ(why("2,0\n1,0\n"),
            ":2: the time of event 1 is 1 after 2; need times that do not go backwards");
  EXPECT_EQ(why("2,0\nx,0\n"),
            ":2: the time of event 1 is 'x'; need a number from -1e+15 to 1e+15");
  EXPECT_EQ(why("2,0\n5k,0\n"),
            ":2: the time of event 1 is '5k'; need a number from -1e+15 to 1e+15");
  EXPECT_EQ(why("2,0\n3,2.5\n"),
            ":2: the type of event 1 is '2.5'; need a whole number from 0 to 4095, or --edges "
            "between numbers");
  EXPECT_EQ(why("2,0\n3,9999\n"),
            ":2: the type of event 1 is '9999'; need a whole number from 0 to 4095, or --edges "
            "between numbers");
}

TEST(EventFile, BadDocumentsHaveASentence) {
  const TemporaryDirectory scratch;
  const auto path = scratch / "x.json";
  const auto why = [&](const std::string& content) {
    write_bytes(path, content);
    const std::string message = message_of([&] { read_events("events", path); });
    const std::string opening = "[events] " + path.string();
    EXPECT_TRUE(message.starts_with(opening)) << message;
    return message.substr(std::min(message.size(), opening.size()));
  };
  EXPECT_EQ(why("[]"), " is an empty list; need a sequence at least");
  EXPECT_EQ(
      why("[\n[{\"time\":1,\n\"type\":]]"),
      ": line 3, column 8: syntax error while parsing value - unexpected ']'; need valid JSON");
  EXPECT_EQ(why("[[{\"time\": 1e999, \"type\": 0}]]"),
            ": number overflow parsing '1e999'; need valid JSON");
  EXPECT_EQ(why("[[{\"time\":1,\"type\":0}],[{\"time\":2,\"type\":0},{\"time\":1,\"type\":0}]]"),
            ": sequence 1: the time of event 1 is 1 after 2; need times that do not go backwards");
  EXPECT_EQ(why("[[{\"time\":1,\"type\":\"x\"}]]"),
            ": sequence 0: the type of event 0 is \"x\"; need a whole number from 0 to 4095");
  EXPECT_EQ(why("[3]"), ": sequence 0: not a JSON object; need {\"t\": […], \"m\": […]}");
}

}  // namespace event_file_test
}  // namespace longspan
