#include "longspan/base/choice.h"

#include <gtest/gtest.h>

#include "longspan/base/error.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace choice_test {

enum class Fruit : std::uint8_t { kApple, kPear, kQuince };
constexpr Names<3> names_of(Fruit /*kind*/) {
  return {"orchard", "fruit", {"apple", "pear", "quince"}};
}

struct Basket {
  Choice<Fruit> fruit = Fruit::kPear;
  template <class See>
  void visit(See see) {
    see("fruit", fruit);
  }
};

TEST(Choice, NamesGoBothWays) {
  for (const Fruit fruit : {Fruit::kApple, Fruit::kPear, Fruit::kQuince}) {
    const Choice<Fruit> choice = fruit;
    EXPECT_EQ(Choice<Fruit>(choice.name()), fruit);
    EXPECT_EQ(find_named<Fruit>(name_of(fruit)), fruit);
    EXPECT_EQ(fmt::format("{}", choice), choice.name());
  }
  EXPECT_EQ(find_named<Fruit>("plum"), std::nullopt);
  EXPECT_EQ(listed_names<Fruit>(), "apple, pear or quince");
}

TEST(Choice, RefusesAWordThatIsNoneOfItsNames) {
  constexpr const char* kSentence =
      "[orchard] unknown fruit 'peer'; did you mean 'pear'? Known: apple, pear, quince";
  EXPECT_EQ(testing::message_of([] { Choice<Fruit>("peer"); }), kSentence);
  Choice<Fruit> fruit = Fruit::kApple;
  EXPECT_EQ(testing::message_of([&] { fruit = "peer"; }), kSentence);
  EXPECT_EQ(fruit, Fruit::kApple);
}

TEST(Choice, IsAnOptionLikeAnyOther) {
  Basket basket;
  parse_options("basket", "fruit=quince", basket);
  EXPECT_EQ(basket.fruit, Fruit::kQuince);
  EXPECT_EQ(testing::message_of([&] { parse_options("basket", "fruit=quinze", basket); }),
            "[basket] unknown fruit 'quinze'; did you mean 'quince'? Known: apple, pear, quince");
  EXPECT_EQ(basket.fruit, Fruit::kQuince);
}

}  // namespace choice_test
}  // namespace longspan
