// The two streams of the program, whatever becomes of them.
//
// Where the locale has no letters beyond ASCII, the signs of this program are written in ASCII.
//
// Results go to standard output: that they cannot be written is noticed, at the latest when the
// program ends. Notes and complaints go to standard error, where a failure changes nothing: a log
// on a full disk must not cost the run that it is about.
#pragma once

#include <stdexcept>
#include <system_error>

namespace longspan::cli {

// Standard output takes no more; finish_output() says why.
struct OutputLost : std::runtime_error {
  OutputLost() : std::runtime_error("standard output takes no more") {}
};

// Comes before everything else that the program does.
void prepare_streams();

// From now on standard output is written as it is, whatever the locale: what programs read, and
// texts that are not this program's.
void print_verbatim();

// Brings what was printed so far to its reader; throws OutputLost where that fails.
void flush_output();

// Whether what was thrown came from printing; then finish_output() says it.
bool lost_output(const std::system_error& thrown);

// The exit code of a program that would end with `status`: 1 and a sentence when something printed
// was lost, 141 and silence when its reader went away.
int finish_output(int status);

}  // namespace longspan::cli
