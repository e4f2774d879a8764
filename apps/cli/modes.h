// Options that have no meaning together, said beside the options and asked before anything runs:
// what was typed and would not be read is refused by name.
#pragma once

#include <string>
#include <vector>

#include "command.h"

namespace longspan::cli {

// Names are of options, "--out" or "phase", or of a group of them, "Model".
class Modes {
 public:
  using Names = std::vector<std::string>;

  // Where `flag` is given the command does something else, and reads these besides.
  Modes& only(std::string flag, Names reads);
  // Where `flag` is given these are not read.
  Modes& apart(std::string flag, Names others);
  // These are read where one of `others` is given.
  Modes& needs(Names flags, Names others);
  // Throws Error, "[compare] --lengths with --render; need one or the other", and for an option
  // that was given without anything in it.
  void check(const CLI::App& command) const;

 private:
  enum class Kind { kOnly, kApart, kNeeds };
  struct Statement {
    Kind kind;
    Names first, second;
  };
  std::vector<Statement> all_;
};

}  // namespace longspan::cli
