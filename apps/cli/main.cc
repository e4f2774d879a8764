// longspan: the command line. Exit 0: done; 2: the input is wrong, one sentence says how; 128 + n:
// signal n asked it to stop; 1: anything else that went wrong.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "command.h"
#include "longspan/base/error.h"
#include "longspan/base/parallel.h"
#include "output.h"
#include "parse_errors.h"
#include "stop.h"
#include "terminal.h"

namespace longspan::cli {
namespace {

constexpr int kFailure = 1;
constexpr int kWrongInput = 2;
constexpr const char* kNoMemory =
    "[memory] the machine refused more memory; use a smaller model, batch or length";

// Said without asking for more.
void say_no_memory() {
  for (const char* text : {"longspan: ", kNoMemory, "\n"}) std::fputs(text, stderr);
}

// The runtime of OpenMP, refused memory or a thread of its own, exits from where it is.
bool running = true;
void explain_exit() {
  if (running) say_no_memory();
}

// What leaves a destructor ends the program. Where it is that memory was refused, as to the list
// with whose help JSON is destroyed, it is the same sentence.
[[noreturn]] void end_with_a_sentence() {
  try {
    if (std::current_exception() != nullptr) throw;
  } catch (const std::bad_alloc&) {
    say_no_memory();
    std::_Exit(kFailure);
  } catch (...) {  // a fault of the program, to be looked into
  }
  std::abort();
}

void say(std::string_view sentence) { fmt::print(stderr, "longspan: {}\n", visible(sentence)); }

// One output has one format.
void refuse_csv(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) {
    const CLI::Option* csv = command->get_option_no_throw("--csv");
    require(csv == nullptr || csv->count() == 0, "[{}] --csv with --json; need one or the other",
            command->get_name());
  }
}

int run(int argc, char** argv) {
  CLI::App app("longspan: what an attention costs and how good it is, predicted and measured");
  app.name("longspan");
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  longspan list\n"
      "  longspan compare --budget 1m\n"
      "  longspan train text --data book.txt --out model\n"
      "  longspan eval model\n"
      "  longspan generate model --prompt 'Once upon'\n"
      "longspan COMMAND --help explains each.");
  Common common;
  add_number(app, "--threads", common.threads, "Threads; all cores unless given", from_to(1, 1024))
      ->default_str("");
  app.add_flag("--json", common.json, "Machine-readable output");
  app.add_flag("--quiet", common.quiet, "No progress and no notes");
  app.set_version_flag("--version", "", "Version, instruction set and threads");
  app.fallthrough();
  app.parse_complete_callback([&] {
    if (common.threads > 0) set_thread_count(common.threads);
    if (common.json) refuse_csv(app);
    if (common.json) print_verbatim();
  });
  add_list(app, common);
  add_train(app, common);
  add_eval(app, common);
  add_generate(app, common);
  add_plan(app, common);
  add_compare(app, common);
  add_compare_worker(app);
  add_advise(app, common);
  add_calibrate(app, common);
  add_cost(app, common);
  add_pattern(app, common);
  add_version(app, common);
  add_help(app, common);
  refuse_values_of_flags(app);
  for (CLI::App* command : app.get_subcommands({})) {
    command->fallthrough();
    refuse_values_of_flags(*command);
  }
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::CallForVersion&) {
    print_version(common);
    return 0;
  } catch (const CLI::Success& e) {  // --help
    std::ostringstream help;
    const int status = app.exit(e, help);
    fmt::print("{}", fitted(shown(help.str()), terminal_width(STDOUT_FILENO)));
    return status;
  } catch (const CLI::ParseError& e) {
    explain(e, app);
  }
}

int run_and_explain(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Stopped& stopped) {
    if (!stopped.sentence.empty()) say(stopped.sentence);
    return 128 + stopped.signal;
  } catch (const OutputLost&) {  // finish_output() says it
    return 0;
  } catch (const SystemError& e) {
    say(e.what());
    return kFailure;
  } catch (const Error& e) {
    say(e.what());
    return kWrongInput;
  } catch (const std::length_error&) {  // more than any memory holds
    say(kNoMemory);
    return kFailure;
  } catch (const std::bad_alloc&) {
    say(kNoMemory);
    return kFailure;
  } catch (const std::filesystem::filesystem_error& e) {
    say(fmt::format("[files] {} could not be used: {}", e.path1().string(), e.code().message()));
    return e.code() == std::errc::io_error || e.code() == std::errc::no_space_on_device
               ? kFailure
               : kWrongInput;
  } catch (const std::system_error& e) {
    if (lost_output(e)) return 0;
    say(e.what());
    return kFailure;
  } catch (const std::exception& e) {
    say(e.what());
    return kFailure;
  }
}

}  // namespace
}  // namespace longspan::cli

int main(int argc, char** argv) {
  namespace cli = longspan::cli;
  std::set_terminate(cli::end_with_a_sentence);
  std::atexit(cli::explain_exit);
  cli::watch_for_stops();
  cli::prepare_streams();
  const int status = cli::finish_output(cli::run_and_explain(argc, argv));
  cli::running = false;
  return status;
}
